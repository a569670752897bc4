/* A small convolutional network in Tile, its gradients generated, and its training by Adam. */
#ifndef DIGITS_NETWORK_H
#define DIGITS_NETWORK_H

#include "array.h"
#include "data.h"

#define PARAMETERS 6

typedef struct {
  array value, gradient, mean, square; /* the last two: Adam's moving averages */
  int64_t count;
} parameter;

typedef struct {
  tile_engine* engine;
  tile_program* loss;     /* images, labels, parameters -> loss, correct */
  tile_program* gradient; /* the same and a seed -> loss, correct, a gradient for each parameter */
  tile_program* update;   /* one step of Adam for one parameter */
  parameter parameters[PARAMETERS];
  int steps;
} network;

typedef struct {
  float loss;      /* mean over the images */
  int32_t correct; /* how many images are recognised */
} score;

/* backend: "cpu", "reference", "auto". */
void create_network(network* net, const char* backend, uint64_t seed);
void free_network(network* net);

score evaluate(network* net, const images* batch);
/* One step; the score is that before it. */
score train_step(network* net, const images* batch, float rate);

#endif
