/*
 * What a program built by Go says of the modules that it was built of. The linker puts it into the
 * section .go.buildinfo, which stays when a program is stripped (Go 1.18 and later,
 * src/debug/buildinfo/buildinfo.go and src/cmd/link/internal/ld/data.go):
 *
 *       0  "\xff Go buildinf:"
 *      14  size of a pointer
 *      15  flags; 2: the two strings follow in place
 *      32  length (varint), the version of Go; length, the text of the modules
 *
 * The text lies between two marks of 16 bytes, and has lines: "mod" or "dep", path, version, sum,
 * with tabs between them; "=>" and the same replaces the line before it. Not supported: older
 * programs, which have pointers in place of the strings, and programs whose section headers were
 * removed.
 */
#ifndef GPUMEND_ELF_GOBUILD_H
#define GPUMEND_ELF_GOBUILD_H

#include "elf/image.h"

/* The text of the modules, which points into the image; empty: there is none, or it is damaged.
 * Programs that were built outside modules have none. */
struct str elf_go_modules(const struct elf_image *e);

/* The version of the module with this path in the text, "v1.0.1", or empty: it is not in it, or
 * something without a version replaces it. */
struct str elf_go_module(struct str modules, const char *path);

#endif
