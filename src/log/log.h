/*
 * A log as people paste it: text in, the cause that it shows out. Pure: nothing is opened, and the
 * same text gives the same answer.
 *
 *   log_rules_load()  ->  log_open()  ->  log_feed()...  ->  log_end()  ->  log_judge()
 *                                              \______ log_judge() at any time _____/
 *
 * Text comes in pieces of any size. It is cut into lines, and each line is made plain: UTF-16 is
 * turned into UTF-8, terminal escapes go, what overwrote itself with carriage returns becomes lines
 * of its own, the texts inside a JSON line become lines too. A line is only looked at when it holds
 * a literal of a pattern (`lines` in kb/failures/CAUSE.yaml); what a pattern finds is a *fact*, a
 * kind with named fields. Entries (`failures` there) say which facts together mean which cause.
 * Where none holds, the words of the text are compared with those of logs whose causes are known
 * (kb/words.json).
 *
 * Memory does not grow with the text: a fact is kept a few times at most, and there is a limit on
 * all facts and on the length of a line that is looked at in one piece (log_limits below).
 *
 * A text of a few pages that shows nothing, or allows no more than a guess, is read again with the
 * lines joined that a terminal or a mail program wrapped (log/wrapped.h).
 *
 * Not supported: encodings other than UTF-8, UTF-16 and single bytes; a message that is broken into
 * lines in another way is seen only as far as one of them shows it.
 */
#ifndef GPUMEND_LOG_LOG_H
#define GPUMEND_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/node.h"
#include "kb/kb.h"

enum {
    LOG_LINE_MAX = 1 << 10, // bytes of a line that are looked at in one piece; longer ones are cut
    LOG_FACTS_MAX = 4096,   // of all kinds
    LOG_SAME_MAX = 4,       // facts that differ in nothing but their line: the earliest
    LOG_PER_SIGNATURE_MAX = 512, // facts of one signature: the earliest
    LOG_MATCHES_MAX = 16,        // of one signature in one line
    LOG_EVIDENCE_MAX = 600,      // bytes of a line that are kept to be shown
};

struct log_rules;

/* Patterns and entries: the built-in ones, and over them those of `files` (kb_failures_read(); may
 * be NULL, and must outlive the rules), where an id that is built in is replaced. They live in `a`;
 * the compiled expressions do not, so that log_rules_close() must follow, also after an error.
 * GM_ERR_FORMAT with "FILE:LINE: " if anything in a file cannot be used. */
int log_rules_load(struct kb *kb, struct arena *a, const struct node_files *files,
                   struct log_rules **ret, struct gm_err *err) GM_CHECK;
void log_rules_close(struct log_rules *rules); // accepts NULL

struct log_field {
    const char *name, *value;
};

struct log_fact {
    const char *kind;
    const char *signature; // id of the row that found it; "table", "screen", "gpu-name": in code
    uint64_t line;         // from 1 on
    uint64_t place;        // as line, but each line of a text inside a JSON line counts
    uint64_t process;      // of several in one log; 0: the log does not say
    const char *text;      // the line without escapes and control characters, shortened
    const struct log_field *fields;
    size_t n_fields;
    uint32_t hash; // of kind and fields
};

enum log_confidence { LOG_POSSIBLE, LOG_LIKELY, LOG_CERTAIN };

enum log_platform {
    LOG_ANY,
    LOG_LINUX,
    LOG_WINDOWS,
    LOG_WSL,
    LOG_CONTAINER,
    LOG_JETSON,
    LOG_MACOS,
    LOG_PLATFORMS,
};

struct log_condition; // of the rule base

struct log_repair {
    enum log_platform platform;        // that it is for
    const char *engine;                // of containers ("podman") that it is for; NULL: any
    const char *program;               // that it is for; NULL: any
    const struct log_condition *where; // fields that the text must have for it
    size_t n_where;
    const char *text;
    const char *command; // can be pasted; NULL: there is none
};

/* One reading of the text. */
struct log_candidate {
    const char *rule;  // id of its entry
    const char *cause; // NULL: no problem of the GPU runtime
    enum log_confidence confidence;
    const char *culprit; // "" if the rule names none
    const char *says;
    const char *decides; // what to send or run to be sure, or NULL
    const struct log_fact *const
        *evidence; // in the order of the rule's conditions, then of its test
    size_t n_evidence;
    const struct log_repair *repairs; // for the log's platform, or for each one if it is not known
    size_t n_repairs;
    size_t entry;                    // its number
    const unsigned char *overridden; // a byte for each entry: 1: its own goes before that, at any
                                     // remove
};

struct log_result {
    const struct log_candidate *candidates; // the best first
    size_t n;
    size_t n_mentions; // > 0: the text describes failures and shows none; so many candidates are
                       // what it mentions, and n is 0
    enum log_platform platform;          // LOG_ANY: the text does not tell
    const struct log_fact *const *facts; // by line
    size_t n_facts;
    uint64_t lines, bytes; // read so far
    bool facts_dropped;    // there were more than are kept
    bool gave_up;          // an expression was given up on this text: it took too many steps
};

struct log;

/* A new log; `rules` and `a` must outlive it. Its facts live in `a`. */
struct log *log_open(struct log_rules *rules, struct arena *a) __attribute__((returns_nonnull));
void log_feed(struct log *l, const void *data, size_t n);

/* The last line, if it has no line end, is looked at. Nothing may be fed afterwards. */
void log_end(struct log *l);

/* What the text says so far. The result lives in `a`, its facts in the log's arena. */
void log_judge(struct log *l, struct arena *a, struct log_result *ret);

/* Whether `other` only reads lines again on which `verdict` rests, which is likely at least. */
bool log_reads_again(const struct log_candidate *verdict, const struct log_candidate *other);

/* Whether it reads them less well, too: an answer that told both would contradict itself. */
bool log_contradicts(const struct log_candidate *verdict, const struct log_candidate *other);

/* Whether two readings are one failure. Of one cause they are two if messages alike, on lines of
 * their own, name two things, and each has a culprit and a repair of its own. */
bool log_is_same_failure(const struct log_candidate *a, const struct log_candidate *b);

/* How many facts there are: while it stays the same, so does the answer of log_judge(). */
size_t log_facts_count(const struct log *l);

const char *log_confidence_name(enum log_confidence confidence);
const char *log_platform_name(enum log_platform platform);

/* The value of a field, or NULL. */
const char *log_fact_field(const struct log_fact *fact, const char *name);

#endif
