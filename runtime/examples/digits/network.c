#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char kLoss[] =
    "function (X[B, H, W], Label[B], K1[KH, KW, C1], B1[C1], K2[KH, KW, C1, C2], B2[C2],\n"
    "          W3[F, N], B3[N]) -> (Loss, Correct) {\n"
    "  // convolution, relu and maximum pool, twice\n"
    "  A1[b, y, x, c: B, H, W, C1] = +(X[b, y + j - 1, x + i - 1] * K1[j, i, c]);\n"
    "  R1 = relu(A1 + B1);\n"
    "  P1[b, y, x, c: B, H / 2, W / 2, C1] = >(R1[b, 2 * y + j, 2 * x + i, c]), j < 2, i < 2;\n"
    "  A2[b, y, x, c: B, H / 2, W / 2, C2] =\n"
    "      +(P1[b, y + j - 1, x + i - 1, d] * K2[j, i, d, c]);\n"
    "  R2 = relu(A2 + B2);\n"
    "  P2[b, y, x, c: B, H / 4, W / 4, C2] = >(R2[b, 2 * y + j, 2 * x + i, c]), j < 2, i < 2;\n"
    "  // dense\n"
    "  Flat = reshape(P2, B, F);\n"
    "  A3[b, n: B, N] = +(Flat[b, f] * W3[f, n]);\n"
    "  Z = A3 + B3;\n"
    "  // softmax cross-entropy\n"
    "  Top[b, 0: B, 1] = >(Z[b, n]);\n"
    "  Sum[b, 0: B, 1] = +(exp(Z[b, n] - Top[b, 0]));\n"
    "  LogP = Z - Top - log(Sum);\n"
    "  Target = as_float(index(LogP, 1) == reshape(Label, B, 1), 32);\n"
    "  Right[] = +(LogP[b, n] * Target[b, n]);\n"
    "  Loss = -Right / B;\n"
    "  Guess = argmax(Z, 1);\n"
    "  Hit = as_int(Guess == Label, 32);\n"
    "  Correct[] = +(Hit[b]);\n"
    "}\n";

/* Kingma and Ba, 2015. T counts the steps from 1. */
static const char kUpdate[] =
    "function (P, G, M, V, Rate[], T[]) -> (P2, M2, V2) {\n"
    "  M2 = 0.9 * M + 0.1 * G;\n"
    "  V2 = 0.999 * V + 0.001 * G * G;\n"
    "  Scale = Rate * sqrt(1 - pow(0.999, T)) / (1 - pow(0.9, T));\n"
    "  P2 = P - Scale * M2 / (sqrt(V2) + 1e-8);\n"
    "}\n";

static const struct {
  const char* name;
  int rank;
  int64_t shape[MAX_RANK];
  int fan_in; /* 0: a bias, which starts at 0 */
} kParameters[PARAMETERS] = {
    {"K1", 3, {3, 3, 16, 0}, 9}, {"B1", 1, {16, 0, 0, 0}, 0},     {"K2", 4, {3, 3, 16, 32}, 144},
    {"B2", 1, {32, 0, 0, 0}, 0}, {"W3", 2, {128, 10, 0, 0}, 128}, {"B3", 1, {10, 0, 0, 0}, 0},
};

static array zeros(int p, int64_t count) {
  float* data = allocate((size_t)count, sizeof(float));
  return float_array(data, kParameters[p].rank, kParameters[p].shape);
}

static void create_parameter(parameter* made, int p, uint64_t* state) {
  made->count = 1;
  for (int d = 0; d < kParameters[p].rank; ++d) made->count *= kParameters[p].shape[d];
  made->value = zeros(p, made->count);
  made->gradient = zeros(p, made->count);
  made->mean = zeros(p, made->count);
  made->square = zeros(p, made->count);
  if (kParameters[p].fan_in == 0) return;
  float range = sqrtf(6.0f / (float)kParameters[p].fan_in);
  float* values = made->value.data;
  for (int64_t i = 0; i < made->count; ++i) values[i] = (2 * random_unit(state) - 1) * range;
}

void create_network(network* net, const char* backend, uint64_t seed) {
  tile_engine_options options;
  const char* names[PARAMETERS];
  memset(net, 0, sizeof *net);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = backend;
  check("engine", tile_engine_create(&options, &net->engine));
  net->loss = parse(net->engine, "loss.tile", kLoss);
  net->update = parse(net->engine, "adam.tile", kUpdate);
  for (int p = 0; p < PARAMETERS; ++p) {
    names[p] = kParameters[p].name;
    create_parameter(&net->parameters[p], p, &seed);
  }
  check("differentiate",
        tile_program_differentiate(net->loss, "Loss", names, PARAMETERS, &net->gradient));
}

void free_network(network* net) {
  for (int p = 0; p < PARAMETERS; ++p) {
    free(net->parameters[p].value.data);
    free(net->parameters[p].gradient.data);
    free(net->parameters[p].mean.data);
    free(net->parameters[p].square.data);
  }
  tile_program_free(net->loss);
  tile_program_free(net->gradient);
  tile_program_free(net->update);
  tile_engine_free(net->engine);
}

/* X, Label and the parameters. */
static void set_inputs(network* net, const images* batch, array* inputs) {
  const int64_t shape[] = {batch->count, SIDE, SIDE};
  inputs[0] = float_array(batch->pixels, 3, shape);
  inputs[1] = int_array(batch->labels, 1, shape);
  for (int p = 0; p < PARAMETERS; ++p) inputs[2 + p] = net->parameters[p].value;
}

score evaluate(network* net, const images* batch) {
  score s = {0, 0};
  array inputs[2 + PARAMETERS], outputs[2];
  set_inputs(net, batch, inputs);
  outputs[0] = float_array(&s.loss, 0, NULL);
  outputs[1] = int_array(&s.correct, 0, NULL);
  run(net->loss, inputs, outputs);
  return s;
}

/* Outputs may not overlap inputs: the new values go to memory of their own first. */
static void update_parameter(network* net, parameter* p, float rate) {
  float step = (float)net->steps;
  size_t bytes = (size_t)p->count * sizeof(float);
  float* made = allocate(3 * (size_t)p->count, sizeof(float));
  array inputs[] = {p->value,
                    p->gradient,
                    p->mean,
                    p->square,
                    float_array(&rate, 0, NULL),
                    float_array(&step, 0, NULL)};
  array outputs[3];
  for (int i = 0; i < 3; ++i) {
    outputs[i] = float_array(made + i * p->count, p->value.rank, p->value.shape);
  }
  run(net->update, inputs, outputs);
  memcpy(p->value.data, outputs[0].data, bytes);
  memcpy(p->mean.data, outputs[1].data, bytes);
  memcpy(p->square.data, outputs[2].data, bytes);
  free(made);
}

score train_step(network* net, const images* batch, float rate) {
  score s = {0, 0};
  float seed = 1;
  array inputs[3 + PARAMETERS], outputs[2 + PARAMETERS];
  set_inputs(net, batch, inputs);
  inputs[2 + PARAMETERS] = float_array(&seed, 0, NULL);
  outputs[0] = float_array(&s.loss, 0, NULL);
  outputs[1] = int_array(&s.correct, 0, NULL);
  for (int p = 0; p < PARAMETERS; ++p) outputs[2 + p] = net->parameters[p].gradient;
  run(net->gradient, inputs, outputs);
  ++net->steps;
  for (int p = 0; p < PARAMETERS; ++p) update_parameter(net, &net->parameters[p], rate);
  return s;
}
