/* The transport over MPI (3.0 or later), as a plug-in that is compiled by the MPI that is there:
 *
 *   mpicc -O2 -shared -fPIC -I PREFIX/include PREFIX/share/tile/tile_mpi.c -o libtile_mpi.so
 *
 * `tile run --transport ./libtile_mpi.so` and tile_mesh_options.transport open it. Nothing else of
 * the library knows MPI.
 *
 * Parts are sent and received where they are, by nonblocking calls that are polled, so that a rank
 * that dies or stands still is noticed by the clock: no call here waits for another process, but
 * for MPI_Init and MPI_Finalize. Notices are messages with a tag of their own. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tile/transport.h"

enum { PARTS = 0, NOTICES = 1 };

/* Each message is at most so long: MPI counts in int, and every message that arrives is a sign of
 * life of the rank that sends. */
static const size_t kMessage = (size_t)64 << 20;
/* A rank that waits yields the processor for this long, then it sleeps between looks: ranks may be
 * more than processors. */
static const double kYielding = 2e-3, kSleeping = 0.1;
/* After a fault messages are given so long to be cancelled. */
static const double kCancelling = 0.2;
/* How long the end of a process waits for the others to come to theirs. */
static const double kEnding = 10;

/* A rank that gave up has said so behind its last messages, which may take so long to be done. */
static const double kLastMessages = 0.1;

typedef struct notice {
  struct notice* next;
  MPI_Request request; /* of one that is told */
  int rank, size;      /* of one that is heard */
  char bytes[TILE_NOTICE_BYTES];
} notice;

typedef struct {
  MPI_Comm comm;
  int rank, ranks;
  notice* told;  /* on their way */
  notice* heard; /* not yet asked for, the first one first */
  char* gave_up; /* for each rank, whether it has told something */
} end_of_rank;

/* Whether a mesh of this process failed: MPI_Finalize would wait for those that are gone. */
static int failed;
static MPI_Comm ending = MPI_COMM_NULL;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(double waited) {
  if (waited < kYielding) {
    sched_yield();
    return;
  }
  struct timespec time = {0, waited < kSleeping ? 50000 : 1000000};
  nanosleep(&time, NULL);
}

static int broken(int code, tile_transport_fault* fault) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  snprintf(fault->message, sizeof fault->message, "MPI: %.*s", length < 200 ? length : 200, text);
  return TILE_EXCHANGE_BROKEN;
}

/* The messages of one exchange. */
typedef struct {
  int count, capacity;
  MPI_Request* requests;
  MPI_Status* statuses;
  int* done;       /* what MPI_Testsome tells */
  int* expected;   /* bytes of a message that is received; -1: sent */
  size_t* partner; /* of each */
} messages;

static size_t messages_of(size_t bytes) { return (bytes + kMessage - 1) / kMessage; }

static int make_messages(messages* m, size_t count) {
  m->count = 0;
  m->capacity = (int)count;
  m->requests = malloc((count + 1) * sizeof *m->requests);
  m->statuses = malloc((count + 1) * sizeof *m->statuses);
  m->done = malloc((count + 1) * sizeof *m->done);
  m->expected = malloc((count + 1) * sizeof *m->expected);
  m->partner = malloc((count + 1) * sizeof *m->partner);
  return m->requests && m->statuses && m->done && m->expected && m->partner;
}
static void free_messages(messages* m) {
  free(m->requests);
  free(m->statuses);
  free(m->done);
  free(m->expected);
  free(m->partner);
}

/* MPI 2 has no const; nothing is written to what is sent. */
static int start(end_of_rank* end, messages* m, size_t rank, char* data, size_t bytes, int sends) {
  for (size_t at = 0; at < bytes; at += kMessage) {
    int size = (int)(bytes - at < kMessage ? bytes - at : kMessage);
    MPI_Request* request = &m->requests[m->count];
    int code = sends ? MPI_Isend(data + at, size, MPI_BYTE, (int)rank, PARTS, end->comm, request)
                     : MPI_Irecv(data + at, size, MPI_BYTE, (int)rank, PARTS, end->comm, request);
    if (code != MPI_SUCCESS) return code;
    m->expected[m->count] = sends ? -1 : size;
    m->partner[m->count++] = rank;
  }
  return MPI_SUCCESS;
}

/* All receives before the sends: messages then arrive where they belong at once. */
static int start_all(end_of_rank* end, messages* m, const tile_sent_part* sent, size_t sent_count,
                     const tile_received_part* received, size_t received_count) {
  int code = MPI_SUCCESS;
  for (size_t i = 0; i < received_count && code == MPI_SUCCESS; ++i) {
    code = start(end, m, received[i].rank, received[i].data, received[i].bytes, 0);
  }
  for (size_t i = 0; i < sent_count && code == MPI_SUCCESS; ++i) {
    code = start(end, m, sent[i].rank, (char*)sent[i].data, sent[i].bytes, 1);
  }
  return code;
}

/* How many messages are done now; MPI_UNDEFINED: all are. */
static int look(messages* m, int* code) {
  int count = 0;
  *code = MPI_Testsome(m->count, m->requests, &count, m->done, m->statuses);
  if (*code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      if (m->statuses[i].MPI_ERROR != MPI_SUCCESS && m->statuses[i].MPI_ERROR != MPI_ERR_PENDING) {
        *code = m->statuses[i].MPI_ERROR;
      }
    }
  }
  for (int i = 0; *code == MPI_SUCCESS && count != MPI_UNDEFINED && i < count; ++i) {
    int bytes = 0;
    if (m->expected[m->done[i]] < 0) continue;
    MPI_Get_count(&m->statuses[i], MPI_BYTE, &bytes);
    if (bytes != m->expected[m->done[i]]) *code = MPI_ERR_TRUNCATE;
  }
  return count;
}

/* Whom the exchange waits for: one that is to send before one that is to take. */
static size_t awaited(const messages* m) {
  for (int i = 0; i < m->count; ++i) {
    if (m->requests[i] != MPI_REQUEST_NULL) return m->partner[i];
  }
  return 0;
}

/* Whether messages are left that cannot be cancelled. */
static int cancel_all(messages* m) {
  double begin = now();
  for (int i = 0; i < m->count; ++i) {
    if (m->requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&m->requests[i]);
  }
  int all = 0;
  while (!all && now() - begin < kCancelling) {
    all = 1;
    for (int i = 0; i < m->count; ++i) {
      int done = 1;
      if (m->requests[i] != MPI_REQUEST_NULL) {
        MPI_Test(&m->requests[i], &done, MPI_STATUS_IGNORE);
      }
      all = all && done;
    }
    if (!all) rest(now() - begin);
  }
  return !all;
}

/* Takes the notices that are here. */
static void take_notices(end_of_rank* end) {
  for (;;) {
    int here = 0, bytes = 0;
    MPI_Status status;
    int code = MPI_Iprobe(MPI_ANY_SOURCE, NOTICES, end->comm, &here, &status);
    notice* one = code == MPI_SUCCESS && here ? malloc(sizeof *one) : NULL;
    if (one == NULL) return;
    one->next = NULL;
    one->rank = status.MPI_SOURCE;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    one->size = bytes;
    if (bytes > TILE_NOTICE_BYTES || MPI_Recv(one->bytes, bytes, MPI_BYTE, one->rank, NOTICES,
                                              end->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      free(one);
      return;
    }
    end->gave_up[one->rank] = 1;
    notice** last = &end->heard;
    while (*last != NULL) last = &(*last)->next;
    *last = one;
  }
}

/* Whether the exchange waits for a rank that gave up. Others may be waited for nevertheless: they
 * may not need that one, and say so themselves where they do. */
static int waits_in_vain(const end_of_rank* end, const messages* m) {
  for (int i = 0; i < m->count; ++i) {
    if (m->requests[i] != MPI_REQUEST_NULL && end->gave_up[m->partner[i]]) return 1;
  }
  return 0;
}

/* `pause`: see tile_transport.exchange, `rest`. */
static int wait_for(end_of_rank* end, messages* m, double timeout, int (*poll)(void*),
                    int (*pause)(void*), void* user, tile_transport_fault* fault) {
  double moved = now(), asked = moved, vain = moved;
  for (;;) {
    int code = MPI_SUCCESS;
    int count = look(m, &code);
    if (code != MPI_SUCCESS) {
      fault->rank = awaited(m);
      return broken(code, fault);
    }
    if (count == MPI_UNDEFINED) return TILE_EXCHANGE_DONE;
    double time = now();
    if (count > 0) {
      moved = vain = time;
      continue;
    }
    take_notices(end);
    if (!waits_in_vain(end, m)) {
      vain = time;
    } else if (time - vain > kLastMessages && end->heard != NULL) {
      return TILE_EXCHANGE_NOTICE;
    }
    if (time - moved > timeout) {
      fault->rank = awaited(m);
      return TILE_EXCHANGE_SILENT;
    }
    if (time - asked > 5e-3) {
      asked = time;
      if (poll != NULL && poll(user) != 0) return TILE_EXCHANGE_CANCELLED;
    }
    if (pause == NULL || !pause(user)) rest(time - moved);
  }
}

static int mpi_exchange(void* state, const tile_sent_part* sent, size_t sent_count,
                        const tile_received_part* received, size_t received_count, double timeout,
                        int (*poll)(void*), int (*pause)(void*), void* user,
                        tile_transport_fault* fault) {
  end_of_rank* end = state;
  size_t count = 0;
  for (size_t i = 0; i < sent_count; ++i) count += messages_of(sent[i].bytes);
  for (size_t i = 0; i < received_count; ++i) count += messages_of(received[i].bytes);
  messages m;
  int result;
  if (make_messages(&m, count)) {
    int code = start_all(end, &m, sent, sent_count, received, received_count);
    result = code == MPI_SUCCESS ? wait_for(end, &m, timeout, poll, pause, user, fault)
                                 : broken(code, fault);
    if (result != TILE_EXCHANGE_DONE) {
      failed = 1;
      fault->in_flight = cancel_all(&m);
    }
  } else {
    snprintf(fault->message, sizeof fault->message, "out of memory");
    result = TILE_EXCHANGE_BROKEN;
  }
  free_messages(&m);
  return result;
}

/* Forgets the notices that are sent. */
static void sweep(end_of_rank* end) {
  notice** link = &end->told;
  while (*link != NULL) {
    notice* one = *link;
    int done = 0;
    if (MPI_Test(&one->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    free(one);
  }
}

static void mpi_tell(void* state, size_t rank, const void* text, size_t bytes) {
  end_of_rank* end = state;
  notice* one = malloc(sizeof *one);
  if (one == NULL || bytes > sizeof one->bytes) {
    free(one);
    return;
  }
  failed = 1;
  memcpy(one->bytes, text, bytes);
  int code =
      MPI_Isend(one->bytes, (int)bytes, MPI_BYTE, (int)rank, NOTICES, end->comm, &one->request);
  if (code != MPI_SUCCESS) {
    free(one);
    return;
  }
  one->next = end->told;
  end->told = one;
  sweep(end);
}

static int mpi_hear(void* state, double timeout, size_t* rank, void* text) {
  end_of_rank* end = state;
  double begin = now();
  for (;;) {
    take_notices(end);
    notice* one = end->heard;
    if (one != NULL) {
      int bytes = one->size;
      *rank = (size_t)one->rank;
      memcpy(text, one->bytes, (size_t)bytes);
      end->heard = one->next;
      free(one);
      return bytes;
    }
    if (now() - begin >= timeout) return -1;
    rest(now() - begin);
  }
}

/* Freeing a communicator takes all of its processes. */
static void mpi_close(void* state) {
  end_of_rank* end = state;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) {
    sweep(end);
    if (!failed) MPI_Comm_free(&end->comm);
  }
  while (end->heard != NULL) {
    notice* one = end->heard;
    end->heard = one->next;
    free(one);
  }
  free(end->gave_up);
  if (end->told == NULL) free(end);
}

/* Whether the request is done within so many seconds. */
static int done_within(MPI_Request* request, double seconds) {
  double begin = now();
  int done = 0;
  while (!done && now() - begin < seconds) {
    if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    if (!done) rest(now() - begin);
  }
  return done;
}

/* Where MPI was not initialised before. A process whose mesh failed ends without MPI_Finalize, and
 * so does one whose others do not come: the launcher then ends what is left. */
static void finalize(void) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || failed) return;
  MPI_Request all;
  if (MPI_Ibarrier(ending, &all) == MPI_SUCCESS && done_within(&all, kEnding)) MPI_Finalize();
}

static int copy_of(MPI_Comm comm, double timeout, MPI_Comm* copy) {
  MPI_Request made;
  if (MPI_Comm_idup(comm, copy, &made) != MPI_SUCCESS || !done_within(&made, timeout)) return 0;
  return MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

/* Whether MPI may be used by the thread alone that initialised it. */
static int serves_one_thread(void) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level < MPI_THREAD_SERIALIZED;
}

/* What keeps MPI from being used; NULL: nothing. */
static const char* initialised(double timeout) {
  int is = 0, finalized = 0, level = MPI_THREAD_SINGLE, main_thread = 0;
  MPI_Finalized(&finalized);
  if (finalized) return "MPI is finalized already";
  MPI_Initialized(&is);
  if (!is) {
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
      return "MPI_Init_thread failed";
    }
    if (!copy_of(MPI_COMM_WORLD, timeout, &ending)) return "not all processes came";
    atexit(finalize);
  }
  MPI_Is_thread_main(&main_thread);
  if (serves_one_thread() && !main_thread) {
    return "MPI was initialised for its main thread alone, and this is another one";
  }
  return NULL;
}

__attribute__((visibility("default"))) int tile_transport_open(uint32_t version, void* communicator,
                                                               double timeout,
                                                               tile_transport* transport, char* why,
                                                               size_t why_bytes);

int tile_transport_open(uint32_t version, void* communicator, double timeout,
                        tile_transport* transport, char* why, size_t why_bytes) {
  if (version != TILE_TRANSPORT_VERSION) {
    snprintf(why, why_bytes, "it was compiled for version %d of the interface, not for %u",
             TILE_TRANSPORT_VERSION, (unsigned)version);
    return 1;
  }
  const char* fault = initialised(timeout);
  end_of_rank* end = fault == NULL ? calloc(1, sizeof *end) : NULL;
  MPI_Comm from = communicator == NULL ? MPI_COMM_WORLD : *(MPI_Comm*)communicator;
  if (fault == NULL && end == NULL) fault = "out of memory";
  if (fault == NULL && !copy_of(from, timeout, &end->comm)) fault = "not all processes came";
  if (fault != NULL) {
    snprintf(why, why_bytes, "%s", fault);
    free(end);
    return 1;
  }
  MPI_Comm_rank(end->comm, &end->rank);
  MPI_Comm_size(end->comm, &end->ranks);
  end->gave_up = calloc((size_t)end->ranks, 1);
  if (end->gave_up == NULL) {
    snprintf(why, why_bytes, "out of memory");
    free(end);
    return 1;
  }
  transport->rank = (size_t)end->rank;
  transport->ranks = (size_t)end->ranks;
  transport->state = end;
  transport->exchange = mpi_exchange;
  transport->tell = mpi_tell;
  transport->hear = mpi_hear;
  transport->close = mpi_close;
  transport->one_thread = serves_one_thread();
  return 0;
}
