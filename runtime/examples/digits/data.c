#include "data.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

/* PCG: a linear congruential step, its high bits rotated. */
uint32_t random_bits(uint64_t* state) {
  uint64_t old = *state;
  *state = old * 6364136223846793005u + 1442695040888963407u;
  uint32_t mixed = (uint32_t)(((old >> 18) ^ old) >> 27), turn = (uint32_t)(old >> 59);
  return (mixed >> turn) | (mixed << ((32 - turn) & 31));
}

float random_unit(uint64_t* state) { return (float)(random_bits(state) >> 8) * 0x1p-24f; }

static void bad_line(int line) {
  fprintf(stderr, "digits: line %d is not 64 pixels and a label\n", line);
  exit(1);
}

static void read_line(char* text, int line, float* pixels, int32_t* label) {
  for (int i = 0; i <= PIXELS; ++i) {
    char* end = text;
    double value = strtod(text, &end);
    if (end == text || (*end != ',' && i < PIXELS)) bad_line(line);
    if (i < PIXELS) {
      pixels[i] = (float)value / 16;
    } else {
      *label = (int32_t)value;
    }
    text = end + 1;
  }
}

images read_images(FILE* file) {
  images all = {0, NULL, NULL};
  int capacity = 4096;
  char text[1024];
  all.pixels = allocate((size_t)capacity * PIXELS, sizeof(float));
  all.labels = allocate((size_t)capacity, sizeof(int32_t));
  while (all.count < capacity && fgets(text, sizeof text, file)) {
    read_line(text, all.count + 1, all.pixels + (size_t)all.count * PIXELS, all.labels + all.count);
    ++all.count;
  }
  if (all.count == 0) bad_line(1);
  return all;
}

static void swap_images(images* all, int i, int k) {
  float held[PIXELS];
  float *a = all->pixels + (size_t)i * PIXELS, *b = all->pixels + (size_t)k * PIXELS;
  memcpy(held, a, sizeof held);
  memcpy(a, b, sizeof held);
  memcpy(b, held, sizeof held);
  int32_t label = all->labels[i];
  all->labels[i] = all->labels[k];
  all->labels[k] = label;
}

void shuffle(images* all, uint64_t* state) {
  for (int i = all->count - 1; i > 0; --i) {
    int k = (int)(random_bits(state) % (uint32_t)(i + 1));
    if (k != i) swap_images(all, i, k);
  }
}

images part(const images* all, int from, int count) {
  images some = {count, all->pixels + (size_t)from * PIXELS, all->labels + from};
  return some;
}
