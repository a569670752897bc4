// Threads that the process does not get.
#pragma once

#include <atomic>

namespace tile::test {

// How many more threads any library of the process may begin; below zero, how many were refused.
// A program that links this has pthread_create replaced.
extern std::atomic<int> threads_left;

}  // namespace tile::test
