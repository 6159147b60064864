// Run-time choice of the instruction set: one portable binary, the hot loops compiled for AVX2 and AVX-512 as well.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define TAGWOOD_HOT __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TAGWOOD_HOT
#endif

// For helpers of hot functions: they must be compiled into the caller, with the caller's instruction set.
#define TAGWOOD_INLINE __attribute__((always_inline)) inline
