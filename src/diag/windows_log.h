/*
 * The loads that a log of Windows shows to have failed, performed again in the model of a tree:
 * what [WinError 126], 127 and 193 hide there.
 *
 *   diag_windows_read_log()  which loads the log names: by a path, a module or a base name
 *   diag_windows_ask()       each of them in the environments of the tree, which were judged
 *
 * A path of another machine is looked for by what follows its site-packages. A DLL of a package
 * whose import is modelled is loaded by that import, another one by its path as ctypes does it; a
 * bare name by a plain LoadLibrary() after the imports of the environment.
 */
#ifndef GPUMEND_DIAG_WINDOWS_LOG_H
#define GPUMEND_DIAG_WINDOWS_LOG_H

#include "diag/windows.h"
#include "log/log.h"

struct diag_windows_subject {
    uint64_t line;
    unsigned code;    // 126, 127, 193, ...; 0: the line has none
    const char *path; // of Windows, or NULL
    const char *name; // its base name; of a module ("_ext") without a suffix
    bool is_module;
};
typedef VEC(struct diag_windows_subject) diag_windows_subjects;

void diag_windows_read_log(struct arena *a, const struct log_result *log,
                           diag_windows_subjects *ret);

enum diag_windows_outcome {
    DIAG_WINDOWS_ABSENT, // the tree has no such file
    DIAG_WINDOWS_FAILS,
    DIAG_WINDOWS_LOADS,
    DIAG_WINDOWS_UNKNOWN,
};

struct diag_windows_answer {
    const struct diag_windows_subject *subject;
    const struct diag_windows *environment; // NULL with ABSENT
    enum diag_windows_outcome outcome;
    unsigned code; // with FAILS: of the model
    const char *says;
    const struct diag_windows_finding *finding; // of the check, with its repairs; or NULL
};
typedef VEC(struct diag_windows_answer) diag_windows_answers;

/* Adds one answer for each subject and each environment that has files for it; of a file in one of
 * them only that one is asked. */
void diag_windows_ask(const struct diag_windows *all, size_t n,
                      const diag_windows_subjects *subjects, diag_windows_answers *ret);

/* Adds one answer, ABSENT, for each subject that has none. */
void diag_windows_ask_rest(struct arena *a, const diag_windows_subjects *subjects,
                           diag_windows_answers *ret);

#endif
