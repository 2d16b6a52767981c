/* The C library's elf.h includes it; nothing here reads an auxiliary vector. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_BITS_AUXV_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_BITS_AUXV_H

#endif
