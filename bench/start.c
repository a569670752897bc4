/* The start of the program `tile-bench`; apart for the reason that runtime/cli/start.c gives. */
int private_tile_bench_main(int argc, char** argv);

int main(int argc, char** argv) { return private_tile_bench_main(argc, argv); }
