/* The start of the program `tile`. It is C and apart, so that the portable build's program holds no
   C++ runtime: there all of it is in libtile.so, next to this program. */
int private_tile_main(int argc, char** argv);

int main(int argc, char** argv) { return private_tile_main(argc, argv); }
