/*
 * The probe helper: a small dynamic program that runs one stage in a process of its own, calls the
 * vendor's libraries and says on descriptor 3 what came of it. It may crash or hang; its parent
 * (probe/runner.h) knows the last call from what was said before it.
 *
 *   helper stage=cublas-float32 device=0 load=/opt/v/libcublasLt.so.12 lib=/opt/v/libcublas.so.12
 *
 * A stage is one row in the table of helper.c and one function that ends in say_passed(),
 * say_failed() or say_unknown():
 *
 *   void stage_thing(const struct job *j)
 *   {
 *       void *library = open_library(job_value(j, "lib"));
 *       int (*thingInit)(int) = symbol(library, "thingInit");
 *       int rc = CALL(thingInit, 0);
 *       if (rc != 0) {
 *           say_failed(rc, NULL, "thingInit failed");
 *       }
 *       say_passed("thing is there");
 *   }
 *
 * Descriptor 3 carries lines, whose words are separated by one blank and escaped (%20, %0A, %25):
 *
 *   call NAME | fact KEY VALUE | passed TEXT | failed CODE NAME TEXT | unknown TEXT | skipped TEXT
 *
 * Standard output and standard error belong to the vendors' libraries.
 *
 * The helper runs in old images: it is bound to no symbol version of glibc above 2.17, which a unit
 * test checks. So it uses no function whose version is younger (no strtol and sscanf: newer headers
 * turn them into __isoc23_ ones; no stat), no thread, no floating-point library. No vendor header
 * either: types and prototypes are declared here, from the vendors' public documentation.
 */
#ifndef GPUMEND_INJECT_PROBE_HELPER_H
#define GPUMEND_INJECT_PROBE_HELPER_H

#include <stddef.h>

enum { REPORT_FD = 3, LOADS_MAX = 64 };

struct job {
    const char *stage;
    int device;                  // ordinal as the runtime counts; -1: the stage is not for a device
    const char *lib;             // lib=: the library of the stage, or NULL
    const char *load[LOADS_MAX]; // in the order given; opened by job_load_all()
    size_t n_load;
    char *const *arguments; // all of them, "key=value", ended by NULL
};

/* `arguments` outlive the job. */
void job_read(struct job *j, char *const *arguments);

/* The value of an argument, or NULL where it was not given. */
const char *job_value(const struct job *j, const char *key);

/* The value as a decimal number; `otherwise` where it was not given or is no number. */
long job_number(const struct job *j, const char *key, long otherwise);

/* Opens the libraries of load= by path, in order and globally as the target's process has them;
 * a failure is the stage's. */
void job_load_all(const struct job *j);

/* The same for those that stand before `path`, all where it does not stand there. */
void job_load_before(const struct job *j, const char *path);

/* Before every call into a library: a crash or a hang is attributed to the last one. */
void say_call(const char *function);
#define CALL(f, ...) (say_call(#f), (f)(__VA_ARGS__))

/*
 * A value that stands with the stage's result; keys are lower-case words with dots between. The
 * parent knows these: `busy`, before say_failed(): the GPU is in use or closed, not broken;
 * `absent`: there is no driver; `count`: how many devices there are, `device.N.uuid` and
 * `device.N.name`.
 */
void say_fact(const char *key, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* The end of the stage. The text is one sentence without the final stop. A failure's code is the
 * vendor's, 0 where there is none; its name may be NULL: the parent knows most. */
_Noreturn void say_passed(const char *fmt, ...) __attribute__((format(GM_PRINTF, 1, 2)));
_Noreturn void say_failed(long code, const char *code_name, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 3, 4)));
_Noreturn void say_unknown(const char *fmt, ...) __attribute__((format(GM_PRINTF, 1, 2)));
/* There is nothing to run, which is no fault (a library that is not part of this system). */
_Noreturn void say_skipped(const char *fmt, ...) __attribute__((format(GM_PRINTF, 1, 2)));

/* dlopen(path, RTLD_NOW | RTLD_LOCAL); NULL as path, a library that does not open and a missing
 * symbol are failures of the stage, with dlerror()'s words. */
void *open_library(const char *path);
void *symbol(void *library, const char *name);

/* The same without a failure: NULL if it does not open or is not there. */
void *open_optional(const char *path);
const char *library_error(void); // the loader's words on the last that did not open
void *symbol_optional(void *library, const char *name);

/* The path by which the loader has the library, for say_fact(); NULL if it does not tell. */
const char *library_path(void *library);

/* How many MiB of addresses this process may have; 0: there is no limit, or none is known. */
unsigned long long address_limit_mib(void);

/* Sets a variable of this process, for the libraries; without memory for it nothing is set. */
void set_variable(const char *name, const char *value);
void unset_variable(const char *name);

struct stage {
    const char *name;
    void (*run)(const struct job *j); // says how it ended, which ends the process
};

/* stages.c. Runs the stage that the job names: one of the drivers, or of `more`. Does not return.
 */
_Noreturn void stage_run(const struct job *j, const struct stage *more, size_t n_more);

/* nvidia_driver.c, nvidia_devices.c, nvml.c, cpu.c; the others stand in the headers of their
 * vendors. */
void stage_driver_found(const struct job *j);
void stage_driver_opens(const struct job *j);
void stage_driver_symbols(const struct job *j);
void stage_driver_version(const struct job *j);
void stage_driver_init(const struct job *j);
void stage_device_count(const struct job *j);
void stage_visible_devices(const struct job *j);
void stage_context(const struct job *j);
void stage_attributes(const struct job *j);
void stage_memory(const struct job *j);
void stage_memory_free(const struct job *j);
void stage_kernel(const struct job *j);
void stage_nvml(const struct job *j);
void stage_cpu(const struct job *j);

#endif
