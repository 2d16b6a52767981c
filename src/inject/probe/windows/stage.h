/*
 * A stage on Windows: gpumend.exe starts itself for each, so that it needs no second file.
 *
 *   gpumend.exe probe --run-stage report=HANDLE stage=driver-init
 *
 * HANDLE is the number of the inherited end of a pipe, which becomes descriptor 3 (helper.h).
 */
#ifndef GPUMEND_INJECT_PROBE_WINDOWS_STAGE_H
#define GPUMEND_INJECT_PROBE_WINDOWS_STAGE_H

#define STAGE_WORD "--run-stage"

/* Runs the stage of these words, ended by NULL, and ends the process; returns only where they name
 * no pipe. */
void stage_main(char *const *arguments);

#endif
