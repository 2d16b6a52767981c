/*
 * Pairs of letters that NTFS takes for one name: those of the table ($UpCase) that mkntfs writes to
 * a new volume. Each volume stores its own; letters that Unicode has paired since (Georgian,
 * Cherokee, some of Latin Extended-D) are not in it, and are not folded here, though Wine does.
 *
 * Source: mkntfs of ntfs-3g 2022.10.3 (libntfs-3g/unistr.c, ntfs_upcase_table_build()): all 65536
 * entries of the table of a volume that it made.
 */
#ifndef GPUMEND_WINLDR_UPCASE_H
#define GPUMEND_WINLDR_UPCASE_H

#include <stdint.h>

/* The upper-case letter of a pair; any other code point: itself. */
uint32_t winldr_upcase(uint32_t c);

#endif
