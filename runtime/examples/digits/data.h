/* The handwritten digits: 8 x 8 pixels from 0 to 16 and a label. */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stdint.h>
#include <stdio.h>

#define SIDE 8
#define PIXELS (SIDE * SIDE)

/* The same numbers on every machine. */
uint32_t random_bits(uint64_t* state);
float random_unit(uint64_t* state); /* in [0, 1) */

typedef struct {
  int count;
  float* pixels; /* [count][SIDE][SIDE], from 0 to 1 */
  int32_t* labels;
} images;

/* Lines of 64 pixels and a label, separated by commas; ends the program on anything else. */
images read_images(FILE* file);

void shuffle(images* all, uint64_t* state);
/* Images number `from` to `from + count` - 1; shares their memory. */
images part(const images* all, int from, int count);

#endif
