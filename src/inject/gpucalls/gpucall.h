/*
 * The helper of `run --trace-gpu`: tells which calls into a GPU's libraries failed, for programs
 * that do not look themselves. It is loaded by LD_AUDIT and does one thing: where the loader binds
 * a function of libcuda, libcudart or libamdhip64 (by a relocation or by dlsym), and where
 * cuGetProcAddress or hipGetProcAddress hands one out, the program gets the address of a stub:
 *
 *   stub i -> gpucall_enter -> the function itself -> result 0: back to the caller
 *                                                     else gpucall_slow(), then back
 *
 * So the loader's choice of a library is kept, nothing is added to the program's namespace, and a
 * call that succeeds costs a few stores. A runtime that is linked statically is seen through the
 * driver's functions that it asks for.
 *
 *   gpucall.c    the loader's questions, which functions get stubs
 *   object.c     what is known of the objects of the process
 *   stub.S       the stubs
 *   walk.c       the backtrace, by unwind.c
 *   python.c     the frames of a Python interpreter
 *   file.c       names of functions out of a file's symbol table
 *   tell.c       what is known by design, first and repeated failures
 *   arguments.c  the arguments of a call
 *   words.c      a failure as text and as JSON
 *   text.c       text in a bounded buffer
 *   cupti.c      CUPTI's way, for what calls the runtime without the loader's help
 *
 * It uses no library, no memory of the program's malloc, no descriptor that stays open, no lock.
 * What it reads of others' memory goes through unwind_read(), which fails where nothing is mapped.
 */
#ifndef GPUMEND_INJECT_GPUCALLS_GPUCALL_H
#define GPUMEND_INJECT_GPUCALLS_GPUCALL_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/system.h"
#include "inject/text.h"
#include "inject/unwind.h"

enum { GPUCALL_STUBS = 4096, GPUCALL_OBJECTS = 4096, GPUCALL_FRAMES = 48, GPUCALL_TEXT = 1 << 17 };

enum gpucall_api { GPUCALL_DRIVER, GPUCALL_RUNTIME, GPUCALL_HIP, GPUCALL_APIS };

/* ------------------------------------------------------------------ data (scripts/gpucall-embed)
 */

/* A row of functions.txt; offsets into gpucall_text. Sorted by name. */
struct gpucall_function {
    uint32_t name, base, kinds; // kinds: "o:dptr n:bytesize"
    uint32_t version;           // as cuGetProcAddress counts; 0: any
};

struct gpucall_error {
    int32_t code;
    uint32_t name;
};

/* A failure that says nothing is wrong; name may end in '*'. `asks`: what the arguments must hold,
 * or an empty text. */
struct gpucall_design {
    uint32_t name;
    int32_t code;
    uint32_t asks;
};

extern const char gpucall_text[];
extern const struct gpucall_function gpucall_functions[];
extern const uint32_t gpucall_n_functions;
extern const struct gpucall_error gpucall_errors[];
extern const uint32_t
    gpucall_errors_at[GPUCALL_APIS + 1]; // the rows of an API: [at[api], at[api+1])
extern const struct gpucall_design gpucall_designs[];
extern const uint32_t gpucall_n_designs;

/* ------------------------------------------------------------------ objects and stubs */

struct gpucall_object {
    const struct link_map *map; // NULL: the slot is free
    struct unwind_object memory;
    const Elf64_Sym *symbols;
    const char *strings;
    size_t n_strings;
    uint32_t n_symbols;
    bool gpu;
    uint32_t waiting; // refers to GPU functions by relocations that la_symbind64() is not told of
};

extern struct gpucall_object gpucall_objects[GPUCALL_OBJECTS];
extern uint32_t gpucall_n_objects; // slots in use or used before

/* Fills in what an object with its link map has. The program's headers are known from its start;
 * with NULL they are read where the object begins. */
void gpucall_object_learn(struct gpucall_object *o, const Elf64_Phdr *headers, size_t n);

/* Whether the path is that of a GPU's library; whether the object needs one; whether it refers to a
 * symbol. */
bool gpucall_is_library(const char *path);
bool gpucall_needs_library(const struct gpucall_object *o);
bool gpucall_refers_to(const struct gpucall_object *o, const char *name);

/* A value of the dynamic section, 0: there is none; and one as a pointer: the loader has added the
 * base to it where it may write there. */
uintptr_t gpucall_dynamic(const struct link_map *map, int64_t tag);
uintptr_t gpucall_pointer(const struct link_map *map, Elf64_Addr value);

/* The object that holds an address, or NULL. */
const struct gpucall_object *gpucall_object_of(uintptr_t address);

/* The function of the object's dynamic table that holds `address`, or NULL. */
const char *gpucall_symbol(const struct gpucall_object *o, uintptr_t address);

/* The same by the symbol table of the file, which need not be there: the functions that a program
 * does not export. `at` is relative to the object. NULL, or `ret`. */
const char *gpucall_file_symbol(const char *path, uintptr_t at, char *ret, size_t max);

/* 64 bytes, of which stub.S knows the first 24. */
struct gpucall_entry {
    uint64_t key; // real and function, claimed by compare-and-swap
    uint64_t real;
    uint32_t words;  // of arguments on the stack, an even number
    uint32_t always; // gpucall_slow() sees successful calls, too
    uint32_t ready;
    uint32_t function;
    uint64_t unused[4];
};

extern struct gpucall_entry gpucall_entries[GPUCALL_STUBS];

/* What gpucall_enter leaves on the stack. */
#ifdef __x86_64__
enum { GPUCALL_REGISTERS = 6, GPUCALL_SAVED = 5 };
struct gpucall_frame {
    uint64_t arguments[GPUCALL_REGISTERS];
    uint64_t inner; // the number of a failure that came of a call inside this one, 0: none
    struct gpucall_entry *entry;
    uint64_t frame, back; // the caller's frame pointer, the return address
    uint64_t stack[];
};
#else
enum { GPUCALL_REGISTERS = 8, GPUCALL_SAVED = 10 };
struct gpucall_frame {
    uint64_t frame, back;
    struct gpucall_entry *entry;
    uint64_t inner;
    uint64_t arguments[GPUCALL_REGISTERS];
    uint64_t unused[2];
    uint64_t stack[];
};
#endif

/* stub.S */
extern const char gpucall_stubs[], gpucall_returned[];

/* From stub.S: the call has failed, or its entry wants to see it. */
void gpucall_slow(struct gpucall_frame *f, const uint64_t *saved, int result);

/* The address to hand out for a function: a stub, or `real` where there is none to be had. */
uintptr_t gpucall_stub_for(uintptr_t real, const struct gpucall_function *function);

/* By the name in a library's symbol table; by what cuGetProcAddress was asked for. NULL: unknown.
 */
const struct gpucall_function *gpucall_function_named(const char *name);
const struct gpucall_function *gpucall_function_asked(const char *name, uint32_t version,
                                                      bool per_thread);

/* ------------------------------------------------------------------ the walk */

struct gpucall_trace {
    uint64_t pc[GPUCALL_FRAMES];
    unsigned n;
    struct gpucall_frame *outer; // the nearest call that this one was made in, or NULL
};

/* The caller's, with `pc` behind the call. */
void gpucall_registers_at(const struct gpucall_frame *f, const uint64_t *saved,
                          struct unwind_registers *ret);
void gpucall_walk(struct unwind_registers *r, struct gpucall_trace *ret);

/* ------------------------------------------------------------------ Python's frames */

/* Offsets in the objects of one or more minor versions of CPython (python.c). */
struct gpucall_layout {
    unsigned from, to;               // minor versions
    uint16_t thread_frame;           // in the thread's state: the innermost frame, or
    uint16_t c_frame;                // what holds it there, NOWHERE: nothing between
    uint16_t code, previous, at;     // in a frame; `at`: the instruction, NOWHERE: asked for
    uint16_t owner;                  // in a frame, NOWHERE: all of them are Python's
    uint16_t file, name, code_bytes; // in a code object
    uint16_t ascii, compact;         // sizes of a text's head
    uint16_t type, length, state;    // in an object; in a text
};

struct gpucall_interpreter {
    struct gpucall_layout layout;
    uintptr_t thread_state, code_type, text_type, line; // addresses in it
};

struct gpucall_python {
    struct gpucall_interpreter of;
    uintptr_t frame; // the next
    unsigned n;      // that were looked at
};

struct gpucall_python_frame {
    char file[512], function[128]; // UTF-8, cut; the function's qualified name from 3.11 on
    int line;
};

/* The frames of this thread, the innermost first. False: it runs no Python, or none whose frames
 * can be read (python.c). */
bool gpucall_python_begin(struct gpucall_python *ret);
bool gpucall_python_next(struct gpucall_python *p, struct gpucall_python_frame *ret);

/* ------------------------------------------------------------------ telling */

struct gpucall_call {
    const struct gpucall_function *function; // NULL: `name` alone is known
    const char *name;
    enum gpucall_api api;
    int result;
    uint64_t back;             // where it was called
    const uint64_t *registers; // arguments; NULL: not known
    const uint64_t *stack;
    const void *members; // instead of those: a structure that has the arguments as its members
    uint64_t inner;      // the failure that this one came of, 0: none
};

/* `where`: GPUMEND_TRACE_GPU's value, a path, or "-" for standard error; `page`: that of
 * LOSS_VARIABLE, or NULL. */
void gpucall_tell_start(const char *where, const char *page);
bool gpucall_by_design(const struct gpucall_call *c);
void gpucall_failed(const struct gpucall_call *c, struct unwind_registers *r);
/* The same by CUPTI, which knows whether it was called inside another: then *outer is set. */
void gpucall_failed_at(const struct gpucall_call *c, const struct gpucall_trace *trace,
                       uint64_t *outer);
/* A call was successful though one inside it was not. */
void gpucall_succeeded(uint64_t inner);
void gpucall_tell_end(void);

/* ------------------------------------------------------------------ CUPTI */

/* Whether CUPTI tells of this process's calls of CUDA, so that the stubs need not. */
bool gpucall_is_cupti(void);

/* To the copy of this library that the driver has loaded. */
void gpucall_introduce(const struct gpucall_object *o);

/* stub.S: the caller's registers. */
void gpucall_here(struct unwind_registers *ret);

#endif
