/* gm_explain_text: what `gpumend explain LOG` says, as a plain struct. */
#include "api/internal.h"
#include "log/log.h"
#include "report/explain.h"

struct text {
    const void *bytes;
    size_t n;
};

/* Once for a context: signatures and rules take longer to load than a text takes to read. */
static int rules_of(struct gm_context *gm)
{
    if (gm->log_rules) {
        return GM_OK;
    }
    gm->log_root = ROOT_EMPTY; // the built-in areas are in no file
    int rc = kb_open(&gm->log_kb, &gm->results, &gm->log_root, NULL, &gm->err);
    return rc < 0 ? rc : log_rules_load(&gm->log_kb, &gm->results, NULL, &gm->log_rules, &gm->err);
}

static const struct gm_line *lines_of(struct gm_context *gm, const struct log_candidate *c,
                                      size_t *ret_n)
{
    struct gm_line *list = arena_array(&gm->results, c->n_evidence + 1, sizeof *list);
    for (size_t i = 0; i < c->n_evidence; i++) {
        const struct log_fact *f = c->evidence[i];
        if (!report_log_quoted_before(c, i)) {
            list[(*ret_n)++] = (struct gm_line){f->line, api_text(gm, f->text)};
        }
    }
    return list;
}

static const struct gm_text_repair *repairs_of(struct gm_context *gm, const struct log_candidate *c)
{
    struct gm_text_repair *list = arena_array(&gm->results, c->n_repairs + 1, sizeof *list);
    for (size_t i = 0; i < c->n_repairs; i++) {
        const struct log_repair *r = &c->repairs[i];
        list[i] = (struct gm_text_repair){log_platform_name(r->platform), api_text(gm, r->text),
                                          api_text(gm, r->command)};
    }
    return list;
}

static void explained_fill(struct gm_context *gm, const struct report_log *l,
                           struct gm_explained *ret)
{
    static const enum gm_confidence confidences[] = {
        [LOG_POSSIBLE] = GM_POSSIBLE, [LOG_LIKELY] = GM_LIKELY, [LOG_CERTAIN] = GM_CERTAIN};
    const struct log_candidate *best = report_log_best(l);
    enum log_platform platform = l->result->platform;
    *ret = (struct gm_explained){
        .summary = api_text(gm, report_log_summary(l, best)),
        .decides = api_text(gm, report_log_decides(l, best)),
        .platform = platform == LOG_ANY ? NULL : log_platform_name(platform),
    };
    if (best) {
        ret->cause = api_text(gm, best->cause);
        ret->cause_class = api_text(gm, report_log_class(best));
        ret->culprit = *best->culprit ? api_text(gm, best->culprit) : NULL;
        ret->confidence = confidences[best->confidence];
        ret->evidence = lines_of(gm, best, &ret->n_evidence);
        ret->repairs = repairs_of(gm, best);
        ret->n_repairs = best->n_repairs;
    }
}

static int explain_answer(struct gm_context *gm, const void *question, void *answer)
{
    const struct text *t = question;
    if (t->n && !t->bytes) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "which text?");
    }
    int rc = rules_of(gm);
    if (rc < 0) {
        return rc;
    }
    struct log_result result;
    struct log *log = log_open(gm->log_rules, &gm->work);
    log_feed(log, t->bytes, t->n);
    log_end(log);
    log_judge(log, &gm->work, &result);
    explained_fill(gm, &(struct report_log){.result = &result, .arena = &gm->work}, answer);
    return GM_OK;
}

int gm_explain_text(gm_context *gm, const void *bytes, size_t n, struct gm_explained *ret)
{
    struct text t = {bytes || n ? bytes : "", n};
    return api_call(gm, explain_answer, &t, ret, sizeof *ret);
}
