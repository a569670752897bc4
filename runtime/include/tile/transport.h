/* How the processes of a mesh give each other bytes: the interface between libtile and a transport.
 *
 * A transport is a table of functions. The library opens a plug-in (a shared library, see
 * tile_mesh_options.transport) and asks its function `tile_transport_open` for one, or is given one
 * by the host (tile_mesh_options.given). share/tile/tile_mpi.c is the plug-in for MPI.
 *
 * Threads. The functions of one table are called by one thread at a time, which need not always be
 * the same: the library has a thread of its own for exchanges that travel while a rank computes.
 * None may throw or end the process.
 */
#ifndef TILE_TRANSPORT_H
#define TILE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this interface. It changes whenever a table of another version cannot be used. */
#define TILE_TRANSPORT_VERSION 2

/* The longest notice, in bytes. */
#define TILE_NOTICE_BYTES 1024

typedef struct {
  size_t rank; /* that gets it, never the caller's own */
  const void* data;
  size_t bytes; /* may be 0: nothing is sent */
} tile_sent_part;

typedef struct {
  size_t rank; /* that sends it, never the caller's own */
  void* data;
  size_t bytes; /* what the sender sends; may be 0 */
} tile_received_part;

/* How an exchange ended. */
enum {
  TILE_EXCHANGE_DONE = 0,
  TILE_EXCHANGE_SILENT = 1,    /* nothing came from (or was taken by) fault.rank for the timeout */
  TILE_EXCHANGE_NOTICE = 2,    /* another rank has told something: hear() gives it at once */
  TILE_EXCHANGE_CANCELLED = 3, /* poll() gave something else than 0 */
  TILE_EXCHANGE_BROKEN = 4     /* the transport failed; fault.message says how */
};

typedef struct {
  size_t rank;
  /* Not 0: the memory of received parts may still be written, and that of sent ones read, until the
   * process ends. */
  int in_flight;
  char message[256];
} tile_transport_fault;

typedef struct {
  size_t rank, ranks; /* this one, of so many */
  void* state;        /* given to every function */
  /* Sends and receives all parts; parts between two ranks arrive in the order in which they are
   * given. Waits at most `timeout` seconds in which nothing moves, and asks `poll` every few
   * milliseconds whether to give up. An exchange that looks again and again calls `rest` between
   * two looks: it returns after some microseconds in which what the rank computes meanwhile had the
   * processor, or 0 where the exchange is to wait as it likes. Both may be NULL. After anything but
   * TILE_EXCHANGE_DONE only tell, hear and close are called. */
  int (*exchange)(void* state, const tile_sent_part* sent, size_t sent_count,
                  const tile_received_part* received, size_t received_count, double timeout,
                  int (*poll)(void*), int (*rest)(void*), void* user, tile_transport_fault* fault);
  /* Sends another rank a notice of at most TILE_NOTICE_BYTES. Waits for nobody. */
  void (*tell)(void* state, size_t rank, const void* notice, size_t bytes);
  /* Takes the next notice of any rank: returns its bytes, or -1 where none comes within `timeout`
   * seconds. `notice` holds TILE_NOTICE_BYTES. */
  int (*hear)(void* state, double timeout, size_t* rank, void* notice);
  /* The table is not used any more. Waits for nobody. */
  void (*close)(void* state);
  /* Not 0: only the thread that opened the table may call its functions. Exchanges then do not
   * travel while that thread computes. */
  int one_thread;
} tile_transport;

/* What a plug-in exports as "tile_transport_open". All processes call it together, with the
 * version that the library was built with. `communicator`: tile_mesh_options.communicator.
 * Returns 0, else writes a sentence of at most `why_bytes` with its terminating zero. */
typedef int (*tile_transport_open_function)(uint32_t version, void* communicator, double timeout,
                                            tile_transport* transport, char* why, size_t why_bytes);

#ifdef __cplusplus
}
#endif
#endif
