/*
 * What is wrong with a Python environment of a Windows tree: its imports, and the first use of an
 * NVIDIA GPU, are performed in the model (winldr/python.h), and what fails is a finding.
 *
 * A repair that changes what is loaded is tried in the model before it is offered. Commands are
 * given for PowerShell and for the command prompt, each quoted by its rules; one that cannot be
 * written for a shell is not given for it.
 */
#ifndef GPUMEND_DIAG_WINDOWS_H
#define GPUMEND_DIAG_WINDOWS_H

#include "host/host.h"
#include "kb/kb.h"
#include "winldr/python.h"

struct diag_windows_repair {
    const char *says;
    const char *powershell, *cmd; // or NULL
    const char *python;           // a line of the program, before the import; or NULL
    bool is_inside; // it changes the environment or the program's code, which a frozen one has not
    /* What a start-up hook does for it, or NULL and empty: */
    const char *preload;   // a DLL that is loaded first,
    winldr_texts searched; // folders that Python searches,
    winldr_texts on_path;  // folders in front of PATH
};

struct diag_windows_finding {
    const char *cause, *severity, *title;
    const char *evidence;
    VEC(struct diag_windows_repair) repairs; // the least invasive first; empty: none is known
};

/* One process that was modelled, and what ran in it: "import torch". */
struct diag_windows_process {
    const char *package, *script;
    const struct winldr_process *process;
};

struct diag_windows {
    struct arena *arena;
    struct winldr_files *files;
    const struct winldr_python *py;
    struct kb *kb;
    const struct host *host; // NULL: nothing of the machine is known
    VEC(struct diag_windows_finding) findings;
    VEC(const char *) unknown;
    VEC(struct diag_windows_process) processes;
};

/* Fills findings, unknown and processes. */
void diag_windows_judge(struct diag_windows *n);

/* The start-up hook that does what the repairs of the findings say: true, and `ret` is that hook.
 * `ret_after` is the environment with it, judged. False: none of them can be done so. */
bool diag_windows_plan_hook(struct diag_windows *n, struct winldr_hook *ret,
                            struct diag_windows *ret_after);

/* How many findings are errors. */
size_t diag_windows_errors(const struct diag_windows *n);

#endif
