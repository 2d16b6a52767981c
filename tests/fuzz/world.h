/*
 * A small root file system for fuzz targets whose code reads files: a program, its loader, a
 * library, a Python environment. A target overwrites some of the files with its input and runs a
 * whole `check` over it. Made once a process, in memory where /dev/shm is there.
 */
#ifndef GPUMEND_FUZZ_WORLD_H
#define GPUMEND_FUZZ_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "unit/elfmake.h"

#define WORLD_ENV     "/env"
#define WORLD_SITE    WORLD_ENV "/lib/python3.11/site-packages"
#define WORLD_PROGRAM "/bin/program" // needs libone.so.1, loader of glibc
#define WORLD_MUSL    "/bin/musl"    // the same with musl's

/* Writes a file of the world; folders are made as needed. */
void world_write(const char *path, const void *data, size_t n);
void world_write_elf(const char *path, const struct elfmake *spec);
void world_link(const char *path, const char *target); // what was there is replaced

/* The pieces of an input, cut at 0xff bytes, as these files. */
void world_write_pieces(const char *const *paths, size_t n, const uint8_t *data, size_t size);

/* The folder that the world is in. */
const char *world_top(void);

/* Opens a model of the target with this start environment, and calls `use` with it. */
typedef void world_use(void *arg, struct model *m);
void world_look(const char *target, const char *const *env, size_t n_env, world_use *use,
                void *arg);

/* What `gpumend check --root WORLD TARGET` does, up to text and JSON that nobody reads. */
void world_check(const char *target);

/* What `gpumend check --pid` does with what the world's /proc says of the process: it is read,
 * modelled and printed. */
void world_check_process(int pid);

/* A folder for --kb, inside the world: of each area the first rows, and those on the world's
 * package. The whole of what is built in takes longer to load than a hundred checks. */
void world_write_knowledge(const char *folder);

#endif
