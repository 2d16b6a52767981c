/* What the files of this folder share. */
#ifndef GPUMEND_INJECT_PROBE_WINDOWS_SYSTEM_H
#define GPUMEND_INJECT_PROBE_WINDOWS_SYSTEM_H

/* The path of a file of System32, which lives as long as the process; NULL: it is not there. */
const char *system_file(const char *name);

/* The number of the load that failed last, and a number's name in winerror.h or NULL. */
long load_error(void);
const char *load_error_name(long code);

#endif
