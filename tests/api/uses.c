/*
 * Every function of gpumend.h, as a user would call it; C and C++.
 *
 *     uses BROKEN HEALTHY REAL FOLDER
 *
 * BROKEN and HEALTHY are captured trees with an environment at /opt/venv: in the first cuBLAS lies
 * where nothing looks. REAL is an environment of this machine of the same kind, and FOLDER where
 * its cuBLAS is. Prints what is wrong, and ends with status 1 if anything is.
 */
#include <dlfcn.h>
#include <gpumend.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int failures;

static int expect(int holds, const char *what, const gm_context *gm)
{
    if (!holds) {
        printf("wrong: %s (%s)\n", what, gm ? gm_error(gm) : "");
        failures++;
    }
    return holds;
}

static struct gm_target target_of(const char *root, const char *path)
{
    static const char *const none[] = {NULL};
    struct gm_target t;
    memset(&t, 0, sizeof t);
    t.size = sizeof t;
    t.root = root;
    t.path = path;
    t.env = none;
    return t;
}

static void checks(const char *broken, const char *healthy)
{
    gm_context *gm = gm_new();
    struct gm_target t = target_of(broken, "/opt/venv");
    struct gm_check c;
    expect(gm_check(gm, &t, &c) == GM_OK && c.verdict == GM_BROKEN, "the broken tree", gm);
    expect(c.n_findings >= 1 && strcmp(c.findings[0].cause, "library-not-on-path") == 0 &&
               strcmp(c.findings[0].culprit, "libcublas.so.12") == 0 &&
               c.findings[0].severity == GM_ERROR && c.findings[0].n_evidence > 1 &&
               c.findings[0].n_repairs >= 1 && c.findings[0].repairs[0].command,
           "its finding", gm);
    struct gm_check kept = c;
    t = target_of(healthy, "/opt/venv");
    expect(gm_check(gm, &t, &c) == GM_OK && c.verdict == GM_FINE && c.n_fine > 0,
           "the healthy tree", gm);
    /* The first answer still stands, though its target was closed. */
    expect(strstr(kept.findings[0].summary, "libcublas.so.12") != NULL, "an earlier answer", gm);
    t = target_of(broken, "/nowhere");
    expect(gm_check(gm, &t, &c) < 0 && *gm_error(gm) && c.n_findings == 0, "no target", gm);
    t = target_of("/nowhere", NULL);
    expect(gm_check(gm, &t, &c) == GM_LOOK, "no root", gm);
    gm_free(gm);
    gm_free(NULL);
}

static void other_questions(const char *broken)
{
    static const char found[] =
        "/opt/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12";
    gm_context *gm = gm_new();
    struct gm_target t = target_of(broken, "/opt/venv");
    struct gm_plan plan;
    struct gm_why why;
    struct gm_choice choice;
    struct gm_cause cause;
    struct gm_wish wish;
    expect(gm_plan(gm, &t, &plan) == GM_OK && plan.n_ways > 1 && plan.n_left == 0 &&
               strcmp(plan.ways[0].reach, "start") == 0 && !plan.ways[0].unproved,
           "the plan", gm);
    expect(gm_why(gm, &t, "/opt/venv/bin/python", NULL, "libcublas.so.12", &why) == GM_OK &&
               !why.path && strcmp(why.outcome, "not-found") == 0 && why.says && why.n_steps > 0,
           "why it is not found", gm);
    expect(gm_why(gm, &t, "/opt/venv/bin/python", NULL, found, &why) == GM_OK && why.path &&
               strcmp(why.path, found) == 0 && strcmp(why.outcome, "loaded") == 0 && !why.says,
           "why it is found", gm);
    expect(gm_why(gm, &t, "/opt/venv/bin/python", "libnone.so", found, &why) == GM_USAGE &&
               !why.path,
           "a caller that is not there", gm);
    expect(gm_choose(gm, &t, NULL, &choice) < 0 ||
               (choice.device && choice.threads > 0 && choice.reason),
           "a choice", gm);
    expect(gm_choose(gm, NULL, NULL, &choice) == GM_OK && choice.reason, "a choice here", gm);
    memset(&wish, 0, sizeof wish);
    wish.size = sizeof wish;
    wish.app = "nonsense";
    expect(gm_choose(gm, NULL, &wish, &choice) == GM_USAGE && !choice.device, "a wrong app", gm);
    expect(gm_explain(gm, "library-not-on-path", &cause) == GM_OK && cause.page && cause.title,
           "a page", gm);
    expect(gm_explain(gm, "nonsense", &cause) == GM_USAGE && !cause.page, "no page", gm);
    expect(strchr(gm_version(), '.') != NULL, "the version", gm);
    gm_free(gm);
}

static void texts(void)
{
    static const char certain[] =
        "> nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch";
    static const char other[] = "OSError: [Errno 28] No space left on device: '/data/out.bin'\n";
    static const char nothing[] = "all is well\n";
    gm_context *gm = gm_new();
    struct gm_explained e, kept;
    expect(gm_explain_text(gm, certain, sizeof certain - 1, &e) == GM_OK && e.cause &&
               strcmp(e.cause, "driver-version-mismatch") == 0 &&
               strcmp(e.cause_class, "driver-lib-mismatch") == 0 && e.culprit &&
               e.confidence == GM_CERTAIN && *e.summary,
           "the cause that a text states", gm);
    expect(e.n_evidence == 1 && e.evidence[0].line == 2 &&
               strcmp(e.evidence[0].text, strchr(certain, 'F')) == 0 && e.n_repairs > 1 &&
               e.repairs[0].platform && e.repairs[0].text,
           "its evidence and repairs", gm);
    kept = e;
    expect(gm_explain_text(gm, other, sizeof other - 1, &e) == GM_OK && !e.cause && e.cause_class &&
               strcmp(e.cause_class, "not-gpu-runtime") == 0 && e.n_evidence == 1 &&
               e.confidence > GM_UNTOLD,
           "a text of something else", gm);
    expect(gm_explain_text(gm, nothing, sizeof nothing - 1, &e) == GM_OK && !e.cause &&
               !e.cause_class && !e.culprit && e.confidence == GM_UNTOLD && e.n_evidence == 0 &&
               *e.summary && e.decides,
           "a text that does not tell", gm);
    expect(gm_explain_text(gm, NULL, 0, &e) == GM_OK && !e.cause_class, "no text at all", gm);
    expect(gm_explain_text(gm, NULL, 1, &e) == GM_USAGE && !e.summary, "no bytes", gm);
    expect(strstr(kept.summary, "kernel module") != NULL, "an earlier explanation", gm);
    gm_free(gm);
}

static void preloads(const char *real, const char *folder)
{
    gm_context *gm = gm_new();
    struct gm_target t = target_of(NULL, real);
    struct gm_preloaded done;
    expect(!dlopen("libcublas.so.12", RTLD_NOW), "cuBLAS is not found before", gm);
    if (expect(gm_preload(gm, &t, &done) == GM_OK && done.n_libraries > 0 && done.n_left == 0,
               "the preload", gm)) {
        for (size_t i = 0; i < done.n_libraries; i++) {
            expect(done.libraries[i].state == GM_LOADED, done.libraries[i].path, gm);
            expect(strncmp(done.libraries[i].path, folder, strlen(folder)) == 0, "its folder", gm);
        }
    }
    expect(dlopen("libcublas.so.12", RTLD_NOW) != NULL, "cuBLAS is found after", gm);
    expect(gm_preload(gm, &t, &done) == GM_OK && done.n_libraries > 0 &&
               done.libraries[0].state == GM_WAS_LOADED,
           "a second preload", gm);
    gm_free(gm);
}

static void *ask_many_times(void *arg)
{
    gm_context *gm = gm_new();
    struct gm_target t = target_of((const char *)arg, "/opt/venv");
    struct gm_check c;
    const char *wrong = NULL;
    for (int i = 0; i < 20; i++) {
        if (gm_check(gm, &t, &c) != GM_OK || c.verdict != GM_BROKEN) {
            wrong = "a check in a thread";
        }
    }
    gm_free(gm);
    return (void *)wrong;
}

static void threads(const char *broken)
{
    pthread_t list[4];
    void *wrong = NULL;
    for (int i = 0; i < 4; i++) {
        expect(pthread_create(&list[i], NULL, ask_many_times, (void *)broken) == 0, "a thread",
               NULL);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(list[i], &wrong);
        expect(!wrong, (const char *)wrong, NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        return 2;
    }
    checks(argv[1], argv[2]);
    other_questions(argv[1]);
    texts();
    preloads(argv[3], argv[4]);
    threads(argv[1]);
    return failures != 0;
}
