/*
 * glibc has each static program read the link /proc/self/exe before main() (_dl_non_dynamic_init() of
 * elf/dl-support.c), for $ORIGIN in a dlopen(), of which gpumend has none: 0.06 ms of the 0.7 ms of a
 * quick command. This definition is taken instead of that of the archive's elf/dl-origin.c, which holds
 * nothing else. It is built in only where such a program links.
 */
const char *_dl_get_origin(void);

const char *_dl_get_origin(void)
{
    return (const char *)-1; // not known, as the C library's says it
}
