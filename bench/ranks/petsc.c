/* Steps of a stencil in f64 by PETSc's distributed arrays (DMDA), each rank one box of the grid.
 *
 *   mpirun -n N petsc Z Y X RZ RY RX STEPS U.npy OUT RUNS
 *
 * The grid has Z x Y x X cells (Z = 1: two dimensions, five points; else seven), the ranks RZ x RY
 * x RX. A step: cells inside become 0.4 of themselves and 0.1 of each neighbour (0.125 in two
 * dimensions), those at the faces zero. Each rank writes its box to OUT.RANK as raw f64; rank 0
 * prints the time of each run of all steps in nanoseconds, of its slowest rank, and where the boxes
 * are: "box RANK begin begin begin extent extent extent". */
#include <petscdm.h>
#include <petscdmda.h>
#include <stdio.h>
#include <stdlib.h>

enum { kNpyHeader = 128 }; /* that the driver writes */

typedef struct {
  PetscInt z, y, x, depth, height, width;
} Box;

static PetscErrorCode read_box(DM grid, Vec into, const char* path, const Box* box,
                               const PetscInt* size) {
  PetscScalar*** cells;
  FILE* file = fopen(path, "rb");
  if (file == NULL) SETERRQ(PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s", path);
  PetscCall(DMDAVecGetArray(grid, into, &cells));
  for (PetscInt k = 0; k < box->depth; ++k) {
    for (PetscInt j = 0; j < box->height; ++j) {
      PetscScalar* row = size[0] > 1 ? &cells[box->z + k][box->y + j][box->x]
                                     : &((PetscScalar**)cells)[box->y + j][box->x];
      long at =
          (((long)(box->z + k) * size[1] + box->y + j) * size[2] + box->x) * (long)sizeof(double);
      if (fseek(file, kNpyHeader + at, SEEK_SET) != 0 ||
          fread(row, sizeof(double), (size_t)box->width, file) != (size_t)box->width) {
        SETERRQ(PETSC_COMM_SELF, PETSC_ERR_FILE_READ, "%s", path);
      }
    }
  }
  PetscCall(DMDAVecRestoreArray(grid, into, &cells));
  fclose(file);
  return 0;
}

static int inside(PetscInt i, PetscInt size) { return i > 0 && i < size - 1; }

static void step_volume(PetscScalar*** to, PetscScalar*** from, const Box* box,
                        const PetscInt* size) {
  for (PetscInt k = box->z; k < box->z + box->depth; ++k) {
    for (PetscInt j = box->y; j < box->y + box->height; ++j) {
      PetscScalar* restrict out = to[k][j];
      if (!inside(k, size[0]) || !inside(j, size[1])) {
        for (PetscInt i = box->x; i < box->x + box->width; ++i) out[i] = 0;
        continue;
      }
      const PetscScalar *row = from[k][j], *above = from[k - 1][j], *below = from[k + 1][j];
      const PetscScalar *before = from[k][j - 1], *after = from[k][j + 1];
      PetscInt first = box->x > 1 ? box->x : 1;
      PetscInt last = box->x + box->width < size[2] - 1 ? box->x + box->width : size[2] - 1;
      for (PetscInt i = first; i < last; ++i) {
        out[i] = 0.4 * row[i] +
                 0.1 * (above[i] + below[i] + before[i] + after[i] + row[i - 1] + row[i + 1]);
      }
      if (box->x == 0) out[0] = 0;
      if (box->x + box->width == size[2]) out[size[2] - 1] = 0;
    }
  }
}

static void step_plane(PetscScalar** to, PetscScalar** from, const Box* box, const PetscInt* size) {
  for (PetscInt j = box->y; j < box->y + box->height; ++j) {
    PetscScalar* restrict out = to[j];
    if (!inside(j, size[1])) {
      for (PetscInt i = box->x; i < box->x + box->width; ++i) out[i] = 0;
      continue;
    }
    const PetscScalar *row = from[j], *before = from[j - 1], *after = from[j + 1];
    PetscInt first = box->x > 1 ? box->x : 1;
    PetscInt last = box->x + box->width < size[2] - 1 ? box->x + box->width : size[2] - 1;
    for (PetscInt i = first; i < last; ++i) {
      out[i] = 0.5 * row[i] + 0.125 * (before[i] + after[i] + row[i - 1] + row[i + 1]);
    }
    if (box->x == 0) out[0] = 0;
    if (box->x + box->width == size[2]) out[size[2] - 1] = 0;
  }
}

static PetscErrorCode one_step(DM grid, Vec to, Vec from, Vec local, const Box* box,
                               const PetscInt* size) {
  void *out, *in;
  PetscCall(DMGlobalToLocal(grid, from, INSERT_VALUES, local));
  PetscCall(DMDAVecGetArray(grid, to, &out));
  PetscCall(DMDAVecGetArrayRead(grid, local, &in));
  if (size[0] > 1) {
    step_volume(out, in, box, size);
  } else {
    step_plane(out, in, box, size);
  }
  PetscCall(DMDAVecRestoreArrayRead(grid, local, &in));
  PetscCall(DMDAVecRestoreArray(grid, to, &out));
  return 0;
}

static PetscErrorCode write_box(Vec from, const char* path, PetscMPIInt rank) {
  char name[4096];
  const PetscScalar* cells;
  PetscInt count;
  snprintf(name, sizeof name, "%s.%d", path, (int)rank);
  FILE* file = fopen(name, "wb");
  if (file == NULL) SETERRQ(PETSC_COMM_SELF, PETSC_ERR_FILE_OPEN, "%s", name);
  PetscCall(VecGetLocalSize(from, &count));
  PetscCall(VecGetArrayRead(from, &cells));
  fwrite(cells, sizeof *cells, (size_t)count, file);
  PetscCall(VecRestoreArrayRead(from, &cells));
  fclose(file);
  return 0;
}

static PetscErrorCode tell_boxes(const Box* box, PetscMPIInt rank, PetscMPIInt ranks) {
  int own[6] = {(int)box->z,     (int)box->y,      (int)box->x,
                (int)box->depth, (int)box->height, (int)box->width};
  int* all = malloc(sizeof own * (size_t)ranks);
  if (all == NULL) SETERRQ(PETSC_COMM_SELF, PETSC_ERR_MEM, "no memory");
  PetscCallMPI(MPI_Gather(own, 6, MPI_INT, all, 6, MPI_INT, 0, PETSC_COMM_WORLD));
  for (int r = 0; rank == 0 && r < ranks; ++r) {
    const int* b = all + 6 * r;
    printf("box %d %d %d %d %d %d %d\n", r, b[0], b[1], b[2], b[3], b[4], b[5]);
  }
  free(all);
  return 0;
}

static PetscErrorCode make_grid(const PetscInt* size, const PetscInt* ranks, DM* grid) {
  const DMBoundaryType none = DM_BOUNDARY_NONE;
  if (size[0] > 1) {
    PetscCall(DMDACreate3d(PETSC_COMM_WORLD, none, none, none, DMDA_STENCIL_STAR, size[2], size[1],
                           size[0], ranks[2], ranks[1], ranks[0], 1, 1, NULL, NULL, NULL, grid));
  } else {
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, none, none, DMDA_STENCIL_STAR, size[2], size[1],
                           ranks[2], ranks[1], 1, 1, NULL, NULL, grid));
  }
  PetscCall(DMSetUp(*grid));
  return 0;
}

int main(int argc, char** argv) {
  int none = 1;
  char** program = argv;
  PetscCall(PetscInitialize(&none, &program, NULL, NULL));
  if (argc != 11)
    SETERRQ(PETSC_COMM_SELF, PETSC_ERR_ARG_WRONG, "Z Y X RZ RY RX STEPS U.npy OUT RUNS");
  PetscInt size[3], parts[3];
  for (int d = 0; d < 3; ++d) {
    size[d] = atoi(argv[1 + d]);
    parts[d] = atoi(argv[4 + d]);
  }
  int steps = atoi(argv[7]), runs = atoi(argv[10]);
  PetscMPIInt rank, ranks;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  MPI_Comm_size(PETSC_COMM_WORLD, &ranks);
  DM grid;
  Vec first, a, b, local;
  PetscCall(make_grid(size, parts, &grid));
  PetscCall(DMCreateGlobalVector(grid, &first));
  PetscCall(VecDuplicate(first, &a));
  PetscCall(VecDuplicate(first, &b));
  PetscCall(DMCreateLocalVector(grid, &local));
  Box box = {0, 0, 0, 1, 1, 1};
  PetscCall(DMDAGetCorners(grid, &box.x, &box.y, &box.z, &box.width, &box.height, &box.depth));
  PetscCall(read_box(grid, first, argv[8], &box, size));
  for (int run = 0; run < runs; ++run) {
    MPI_Barrier(PETSC_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int s = 0; s < steps; ++s) {
      PetscCall(one_step(grid, s % 2 == 0 ? a : b,
                         s == 0       ? first
                         : s % 2 == 0 ? b
                                      : a,
                         local, &box, size));
    }
    double mine = MPI_Wtime() - begin, slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, PETSC_COMM_WORLD);
    if (rank == 0) printf("run %.0f\n", slowest * 1e9);
  }
  PetscCall(tell_boxes(&box, rank, ranks));
  PetscCall(write_box(steps % 2 == 1 ? a : b, argv[9], rank));
  PetscCall(VecDestroy(&first));
  PetscCall(VecDestroy(&a));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&local));
  PetscCall(DMDestroy(&grid));
  PetscCall(PetscFinalize());
  return 0;
}
