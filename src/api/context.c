/* The context, and what every call has in common. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/internal.h"
#include "version.h"

extern char **environ;

/* No struct of a question will ever be larger: a larger size was not set. */
enum { STRUCT_BYTES_MAX = 4096, WORKING_DIRECTORY_MAX = 1 << 20 };

const char *gm_version(void)
{
    return GPUMEND_VERSION;
}

static void no_memory(void *arg)
{
    struct gm_context *gm = arg;
    longjmp(gm->out_of_memory, 1);
}

gm_context *gm_new(void)
{
    struct gm_context *gm = calloc(1, sizeof *gm);
    if (gm) {
        arena_init(&gm->results, ARENA_LIMIT_DEFAULT, no_memory, gm);
    }
    return gm;
}

void gm_free(gm_context *gm)
{
    if (gm) {
        log_rules_close(gm->log_rules);
        arena_release(&gm->results);
        free(gm);
    }
}

const char *gm_error(const gm_context *gm)
{
    return gm ? gm->err.text : "there is no context";
}

int api_cut(struct gm_context *gm)
{
    return gm_err_set(&gm->err, GM_ERR_LOOK, "a file became shorter while it was read");
}

/* The work, wherever it ends. */
static int work_guarded(struct gm_context *gm, api_work work, const void *question, void *ret)
{
    volatile int rc;
    arena_init(&gm->work, ARENA_LIMIT_DEFAULT, no_memory, gm);
    if (setjmp(gm->out_of_memory) == 0) {
        rc = work(gm, question, ret);
    } else {
        rc = GM_MEMORY;
        (void)gm_err_set(&gm->err, GM_ERR_LIMIT, "out of memory");
    }
    if (gm->target_open) {
        model_target_close(&gm->target);
        gm->target_open = false;
    }
    api_release_answer(gm);
    arena_release(&gm->work);
    return rc == GM_OK && api_is_cut() ? api_cut(gm) : rc;
}

int api_call(struct gm_context *gm, api_work work, const void *question, void *ret, size_t size)
{
    if (ret) {
        memset(ret, 0, size);
    }
    if (!gm) {
        return GM_USAGE;
    }
    int saved = errno;
    gm->err = (struct gm_err){0};
    if (!ret) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "there is no place for the answer");
    }
    if (!api_guard(gm)) {
        return gm_err_set(&gm->err, GM_ERR_LIMIT, "too many calls at once");
    }
    int rc = work_guarded(gm, work, question, ret);
    api_unguard(gm);
    if (rc < 0) {
        memset(ret, 0, size);
    } else {
        gm->err = (struct gm_err){0}; // of what was tried on the way
    }
    errno = saved;
    return rc;
}

int api_take(struct gm_context *gm, void *ret, size_t size, const void *given)
{
    size_t known = size;
    const unsigned char *bytes = given;
    memset(ret, 0, size);
    if (given) {
        memcpy(&known, given, sizeof known);
    }
    if (known < size || known > STRUCT_BYTES_MAX) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "the size of a struct is %zu, not %zu", known,
                          size);
    }
    for (size_t i = size; i < known; i++) {
        if (bytes[i]) {
            return gm_err_set(&gm->err, GM_ERR_UNSUPPORTED, "the question needs a newer gpumend");
        }
    }
    if (given) {
        memcpy(ret, given, size);
    }
    return GM_OK;
}

const char *api_text(struct gm_context *gm, const char *text)
{
    return text ? arena_strdup(&gm->results, text) : NULL;
}

const char *const *api_texts(struct gm_context *gm, const char *const *items, size_t n)
{
    const char **copy = arena_array(&gm->results, n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = api_text(gm, items[i]);
    }
    return copy;
}

/* NULL: its path is longer than any that is read here. */
static const char *working_directory(struct gm_context *gm)
{
    size_t size = 4096;
    char *cwd = arena_alloc(&gm->work, size);
    while (!getcwd(cwd, size)) {
        if (errno != ERANGE || size > WORKING_DIRECTORY_MAX) {
            return errno == ERANGE ? NULL : "/";
        }
        size *= 2;
        cwd = arena_alloc(&gm->work, size);
    }
    return cwd;
}

int api_asked(struct gm_context *gm, const struct gm_target *asked,
              struct model_target_options *ret)
{
    struct gm_target t;
    int rc = api_take(gm, &t, sizeof t, asked);
    if (rc < 0) {
        return rc;
    }
    const char *const *env = t.env ? t.env : (const char *const *)environ;
    VEC(const char *) vars = {0};
    for (size_t i = 0; env && env[i]; i++) {
        VEC_PUSH(&gm->work, &vars, arena_strdup(&gm->work, env[i]));
    }
    *ret = (struct model_target_options){
        .target = t.path,
        .root_path = t.root && strcmp(t.root, "/") != 0 ? t.root : NULL,
        .kb_path = t.kb,
        .imports = t.imports,
        .env = vars.items,
        .n_env = vars.n,
        .cwd = t.cwd ? t.cwd : working_directory(gm),
        .uid = getuid(),
    };
    if (!ret->cwd) {
        return gm_err_set(&gm->err, GM_ERR_LIMIT, "the path of the working directory is too long");
    }
    return ret->cwd[0] == '/' ? GM_OK
                              : gm_err_set(&gm->err, GM_ERR_USAGE,
                                           "the working directory %s is not absolute", ret->cwd);
}

int api_open(struct gm_context *gm, const struct gm_target *asked, bool only_open)
{
    struct model_target_options o;
    int rc = api_asked(gm, asked, &o);
    if (rc < 0) {
        return rc;
    }
    o.only_open = only_open;
    gm->target_open = true; // closing accepts a target whose opening failed
    return model_target_open(&gm->target, &gm->work, &o, &gm->err);
}
