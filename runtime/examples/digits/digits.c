/* Trains a small convolutional network on 1,797 handwritten digits through the C interface of
 * Tile JIT and tests it on a fifth of them that it never sees.
 *
 *   gzip -dc digits.csv.gz | digits [--backend NAME] [--epochs N]
 *   gzip -dc digits.csv.gz | digits --compare STEPS
 *
 * The second form runs a few steps on the reference backend and on the CPU side by side: the losses
 * are equal up to rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "network.h"

enum { kBatch = 32, kComparedBatch = 16 };

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void report(const char* what, score s, int count) {
  printf("%s: loss %.4f, %d of %d recognised (%.1f %%)", what, (double)s.loss, (int)s.correct,
         count, 100.0 * s.correct / count);
}

/* Batches of one size: the images that are left over come into play after the next shuffle. */
static void train_epoch(network* net, images* train, float rate, int epoch) {
  float loss = 0;
  int steps = train->count / kBatch;
  for (int i = 0; i < steps; ++i) {
    images batch = part(train, i * kBatch, kBatch);
    loss += train_step(net, &batch, rate).loss / (float)steps;
  }
  printf("epoch %2d: training loss %.4f", epoch, (double)loss);
}

static int train(images* all, const char* backend, int epochs) {
  uint64_t random = 7;
  network net;
  double start = seconds();
  shuffle(all, &random);
  int held_out = all->count / 5;
  images test = part(all, 0, held_out);
  images rest = part(all, held_out, all->count - held_out);
  create_network(&net, backend, 11);
  printf("%s; %d images to train on, %d held out\n", tile_engine_device(net.engine), rest.count,
         test.count);
  score last = {0, 0};
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    shuffle(&rest, &random);
    train_epoch(&net, &rest, epoch > epochs * 2 / 3 ? 0.0005f : 0.002f, epoch);
    last = evaluate(&net, &test);
    report("; held out", last, test.count);
    printf(", %.1f s\n", seconds() - start);
    fflush(stdout);
  }
  free_network(&net);
  return last.correct * 100 >= test.count * 97 ? 0 : 1;
}

static int compare(images* all, int steps) {
  uint64_t random = 7;
  network reference, cpu;
  int wrong = 0;
  shuffle(all, &random);
  create_network(&reference, "reference", 11);
  create_network(&cpu, "cpu", 11);
  for (int i = 0; i < steps && (i + 1) * kComparedBatch <= all->count; ++i) {
    images batch = part(all, i * kComparedBatch, kComparedBatch);
    score a = train_step(&reference, &batch, 0.002f), b = train_step(&cpu, &batch, 0.002f);
    int equal = fabsf(a.loss - b.loss) <= 1e-4f * (1 + fabsf(a.loss)) && a.correct == b.correct;
    printf("step %d: reference %.6f, cpu %.6f%s\n", i + 1, (double)a.loss, (double)b.loss,
           equal ? "" : "  DIFFERS");
    wrong += !equal;
  }
  free_network(&reference);
  free_network(&cpu);
  return wrong ? 1 : 0;
}

int main(int argc, char** argv) {
  const char* backend = "auto";
  int epochs = 20, compared = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--backend") == 0) backend = argv[i + 1];
    if (strcmp(argv[i], "--epochs") == 0) epochs = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--compare") == 0) compared = atoi(argv[i + 1]);
  }
  images all = read_images(stdin);
  int result = compared > 0 ? compare(&all, compared) : train(&all, backend, epochs);
  free(all.pixels);
  free(all.labels);
  return result;
}
