/*
 * Pairs of letters that NTFS takes for one name: the simple pairs of Unicode in the ranges that a
 * volume's table ($UpCase) has since Windows Vista. Each volume stores its own; letters that
 * Unicode has got since (5.1 and later) are not in it, and are not folded here.
 *
 * Source: the pairs are Unicode's (UnicodeData.txt, "Simple_Uppercase_Mapping"), the ranges those
 * of the table that ntfs-3g writes to a new volume (libntfs-3g/unistr.c, "Vista"). Its final sigma,
 * which Wine does not fold, is left out.
 */
#ifndef GPUMEND_WINLDR_UPCASE_H
#define GPUMEND_WINLDR_UPCASE_H

#include <stdint.h>

/* The upper-case letter of a pair; any other code point: itself. */
uint32_t winldr_upcase(uint32_t c);

#endif
