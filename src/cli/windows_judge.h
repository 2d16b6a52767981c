/*
 * What is wrong with a Python environment of a Windows tree: its imports, and the first use of an
 * NVIDIA GPU, are performed in the model (winldr/python.h), and what fails is a finding.
 *
 * A repair that changes what is loaded is tried in the model before it is offered. Commands are
 * given for PowerShell and for the command prompt, each quoted by its rules; one that cannot be
 * written for a shell is not given for it.
 */
#ifndef GPUMEND_CLI_WINDOWS_JUDGE_H
#define GPUMEND_CLI_WINDOWS_JUDGE_H

#include "host/host.h"
#include "winldr/python.h"

struct windows_repair {
    const char *says;
    const char *powershell, *cmd; // or NULL
    const char *python;           // a line of the program, before the import; or NULL
};

struct windows_finding {
    const char *cause, *severity, *title;
    const char *evidence;
    VEC(struct windows_repair) repairs; // the least invasive first; empty: none is known
};

struct windows_inspection {
    struct arena *arena;
    struct winldr_files *files;
    const struct winldr_python *py;
    const struct host *host; // NULL: nothing of the machine is known
    VEC(struct windows_finding) findings;
    VEC(const char *) unknown;
};

/* Fills findings and unknown. */
void windows_inspect(struct windows_inspection *n);

/* One argument for a shell; NULL: it cannot be written there. */
const char *windows_quote_powershell(struct arena *a, const char *text);
const char *windows_quote_cmd(struct arena *a, const char *text);

#endif
