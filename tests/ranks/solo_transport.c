/* A plug-in of one rank, or of what TILE_SOLO says: "silent", "notice", "broken", "refuse". It has
 * no other ranks: what the library makes of a table is tested without MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tile/transport.h"

static const char* what(void) {
  const char* text = getenv("TILE_SOLO");
  return text == NULL ? "" : text;
}

static int exchange(void* state, const tile_sent_part* sent, size_t sent_count,
                    const tile_received_part* received, size_t received_count, double timeout,
                    int (*poll)(void*), int (*rest)(void*), void* user,
                    tile_transport_fault* fault) {
  (void)state, (void)sent, (void)sent_count, (void)received, (void)received_count, (void)timeout;
  (void)rest;
  if (poll != NULL && poll(user)) return TILE_EXCHANGE_CANCELLED;
  fault->rank = 1;
  if (strcmp(what(), "silent") == 0) return TILE_EXCHANGE_SILENT;
  if (strcmp(what(), "notice") == 0) return TILE_EXCHANGE_NOTICE;
  if (strcmp(what(), "broken") == 0) {
    memset(fault->message, 'x', sizeof fault->message); /* without an end */
    return TILE_EXCHANGE_BROKEN;
  }
  return TILE_EXCHANGE_DONE;
}
static void tell(void* state, size_t rank, const void* notice, size_t bytes) {
  (void)state, (void)rank, (void)notice, (void)bytes;
}
static int hear(void* state, double timeout, size_t* rank, void* notice) {
  (void)state, (void)timeout;
  *rank = 1;
  memcpy(notice, "Fa.npy: cut short", 17);
  return strcmp(what(), "notice") == 0 ? 17 : -1;
}
static void close_end(void* state) { (void)state; }

__attribute__((visibility("default"))) int tile_transport_open(uint32_t version, void* communicator,
                                                               double timeout,
                                                               tile_transport* transport, char* why,
                                                               size_t why_bytes) {
  (void)communicator, (void)timeout;
  if (version != TILE_TRANSPORT_VERSION || strcmp(what(), "refuse") == 0) {
    snprintf(why, why_bytes, "it refuses");
    return 1;
  }
  transport->rank = 0;
  transport->ranks = what()[0] == '\0' ? 1 : 2;
  transport->exchange = exchange;
  transport->tell = tell;
  transport->hear = hear;
  transport->close = close_end;
  return 0;
}
