/* Shared by the files of the public library; not for other rooms. */
#ifndef GPUMEND_API_INTERNAL_H
#define GPUMEND_API_INTERNAL_H

#include <setjmp.h>
#include <signal.h>

#include "gpumend.h"

#include "log/log.h"
#include "model/target.h"

/*
 * Two arenas: `results` lives as long as the context; `work` holds what one call looks at, and goes
 * with the call. What is returned is copied from the second, or from mapped files, to the first.
 */
struct gm_context {
    struct arena results, work;
    struct model_target target;
    bool target_open;
    struct api_answer *answer; // of the child that repairs (repair.c), or NULL
    jmp_buf out_of_memory;     // where an arena without memory returns to, during a call
    sigset_t mask;             // of the calling thread, before the call
    struct gm_err err;
    struct root log_root; // these three: once a text was explained
    struct kb log_kb;
    struct log_rules *log_rules; // or NULL
};

/* A call: api_enter() { work } api_leave(). The function's own locals must not be used after the
 * jump, so the work is done in a function of its own. */
typedef int (*api_work)(struct gm_context *gm, const void *question, void *ret);

/* Runs the work with memory and errors in order; clears `ret` (of `size` bytes) unless it
 * succeeds. */
int api_call(struct gm_context *gm, api_work work, const void *question, void *ret, size_t size);

/*
 * From here to api_unguard() a file that becomes shorter while it is read does not end the process:
 * what is missing reads as zeros, and api_is_cut() says that it happened. False: too many calls at
 * once. The two are called by the same thread; a call must not run code of others between them.
 */
bool api_guard(struct gm_context *gm);
bool api_is_cut(void);
void api_unguard(const struct gm_context *gm);

/* The error of a call for which api_is_cut(). */
int api_cut(struct gm_context *gm);

/* Opens gm->target; with only_open nothing is modelled yet. */
int api_open(struct gm_context *gm, const struct gm_target *asked, bool only_open);

/* The question as the rooms take it; its texts are those of `asked`, or in gm->work. */
int api_asked(struct gm_context *gm, const struct gm_target *asked,
              struct model_target_options *ret) GM_CHECK;

void api_release_answer(struct gm_context *gm);

/* Copies that live as long as the context. */
const char *api_text(struct gm_context *gm, const char *text); // NULL stays NULL
const char *const *api_texts(struct gm_context *gm, const char *const *items, size_t n);

/* Copies the struct of a question; NULL is all zeros. A caller of a newer header may say more than
 * we know, as long as that is zeros. */
int api_take(struct gm_context *gm, void *ret, size_t size, const void *given) GM_CHECK;

#endif
