/* C = A B in f32 by ScaLAPACK (psgemm), divided as Tile's ranks divide it: each rank has one block.
 *
 *   mpirun -n N scalapack ROWS COLUMNS M K N A.npy B.npy OUT RUNS
 *
 * ROWS x COLUMNS ranks; A is M x K and B is K x N, f32, in C's order. Each rank writes its block of
 * C to OUT.RANK as raw f32, and rank 0 prints the time of each run in nanoseconds, of its slowest
 * rank, and where the blocks are: "box RANK row column rows columns". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void Cblacs_get(int context, int what, int* value);
extern void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
extern void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
extern void Cblacs_gridexit(int context);
extern void descinit_(int* descriptor, const int* m, const int* n, const int* mb, const int* nb,
                      const int* first_row, const int* first_column, const int* context,
                      const int* leading, int* info);
extern void psgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
                    const float* alpha, const float* a, const int* ia, const int* ja, const int* da,
                    const float* b, const int* ib, const int* jb, const int* db, const float* beta,
                    float* c, const int* ic, const int* jc, const int* dc);

enum { kNpyHeader = 128 }; /* that the driver writes */

static void fail(const char* what) {
  fprintf(stderr, "scalapack: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A matrix of rows x columns as ScaLAPACK sees it, in Fortran's order. */
typedef struct {
  int rows, columns, block_rows, block_columns, first_row, first_column, own_rows, own_columns;
  int descriptor[9];
  float* data;
} Matrix;

static int least(int a, int b) { return a < b ? a : b; }

static Matrix matrix(int context, int rows, int columns) {
  int grid_rows, grid_columns, row, column, zero = 0, info;
  Cblacs_gridinfo(context, &grid_rows, &grid_columns, &row, &column);
  Matrix m = {.rows = rows, .columns = columns};
  m.block_rows = (rows + grid_rows - 1) / grid_rows;
  m.block_columns = (columns + grid_columns - 1) / grid_columns;
  m.first_row = least(rows, row * m.block_rows);
  m.first_column = least(columns, column * m.block_columns);
  m.own_rows = least(rows - m.first_row, m.block_rows);
  m.own_columns = least(columns - m.first_column, m.block_columns);
  int leading = m.own_rows > 1 ? m.own_rows : 1;
  descinit_(m.descriptor, &rows, &columns, &m.block_rows, &m.block_columns, &zero, &zero, &context,
            &leading, &info);
  if (info != 0) fail("descinit");
  m.data = calloc((size_t)leading * (size_t)(m.own_columns > 0 ? m.own_columns : 1), sizeof(float));
  if (m.data == NULL) fail("no memory");
  return m;
}

static void read_npy(Matrix* m, const char* path) {
  FILE* file = fopen(path, "rb");
  float* line = malloc((size_t)m->columns * sizeof(float));
  if (file == NULL || line == NULL) fail(path);
  for (int i = 0; i < m->own_rows; ++i) {
    long at = (long)(m->first_row + i) * m->columns * (long)sizeof(float);
    if (fseek(file, kNpyHeader + at, SEEK_SET) != 0) fail(path);
    if (fread(line, sizeof(float), (size_t)m->columns, file) != (size_t)m->columns) fail(path);
    for (int j = 0; j < m->own_columns; ++j)
      m->data[i + j * m->own_rows] = line[m->first_column + j];
  }
  free(line);
  fclose(file);
}

static void write_block(const Matrix* m, const char* path, int rank) {
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", path, rank);
  FILE* file = fopen(name, "wb");
  if (file == NULL) fail(name);
  for (int i = 0; i < m->own_rows; ++i) {
    for (int j = 0; j < m->own_columns; ++j)
      fwrite(&m->data[i + j * m->own_rows], sizeof(float), 1, file);
  }
  fclose(file);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 10) fail("ROWS COLUMNS M K N A.npy B.npy OUT RUNS");
  int rank, ranks, context;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "Row", atoi(argv[1]), atoi(argv[2]));
  int m = atoi(argv[3]), k = atoi(argv[4]), n = atoi(argv[5]), one = 1, runs = atoi(argv[9]);
  Matrix a = matrix(context, m, k), b = matrix(context, k, n), c = matrix(context, m, n);
  read_npy(&a, argv[6]);
  read_npy(&b, argv[7]);
  const float alpha = 1, beta = 0;
  for (int run = 0; run < runs; ++run) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    psgemm_("N", "N", &m, &n, &k, &alpha, a.data, &one, &one, a.descriptor, b.data, &one, &one,
            b.descriptor, &beta, c.data, &one, &one, c.descriptor);
    double mine = MPI_Wtime() - begin, slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("run %.0f\n", slowest * 1e9);
  }
  int box[4] = {c.first_row, c.first_column, c.own_rows, c.own_columns};
  int* boxes = malloc(sizeof box * (size_t)ranks);
  if (boxes == NULL) fail("no memory");
  MPI_Gather(box, 4, MPI_INT, boxes, 4, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < ranks; ++r) {
    printf("box %d %d %d %d %d\n", r, boxes[4 * r], boxes[4 * r + 1], boxes[4 * r + 2],
           boxes[4 * r + 3]);
  }
  write_block(&c, argv[8], rank);
  free(boxes);
  free(a.data);
  free(b.data);
  free(c.data);
  Cblacs_gridexit(context);
  MPI_Finalize();
  return 0;
}
