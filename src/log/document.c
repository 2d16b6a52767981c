#include "log/document.h"

#include <string.h>

#include "log/internal.h"

/* What a line is, by the first of these that it matches. */
enum kind {
    KIND_PROMPT,   // of a shell, with the command that somebody ran
    KIND_OUTPUT,   // of a program
    KIND_TEMPLATE, // a heading that issue forms have
    KIND_FIELD,    // of an issue form, and what its writer filled in
    KIND_SELF,     // a document says what it is about
    KIND_MARKUP,   // of a document, beyond doubt
    KIND_FORM,     // of a document, most often
    KIND_LABEL,    // a short word and what is said about it
    KIND_CHAT,     // somebody speaks
    KIND_SETTING,  // of a YAML file: a key alone, or with a quoted value
    KIND_CODE,
    KINDS,
    KIND_SENTENCE = KINDS,
    KIND_ADVICE,   // a sentence to its reader
    KIND_PERSONAL, // a sentence about what its writer saw
    KIND_PHRASE,   // words of a language, too few to tell
    KIND_NONE,
};

#define ANY_OF(...) "(?-i)(?:" __VA_ARGS__ ")"
#define LEVEL                                                                                      \
    "(?:ERROR|WARNING|WARN|INFO|DEBUG|TRACE|FATAL|CRITICAL|[Ee]rror|[Ww]arning|[Ff]atal|[EWIF])"
#define ENDED  "[.,;:!?)]"
#define SCHEMA "\"(?:openapi|swagger|asyncapi|\\$schema)\" ?:" // a description of an interface

static const char *const expressions[KINDS] = {
    [KIND_PROMPT] = ANY_OF("^[A-Z]:\\\\[^<>|*?\"]*>|^PS [A-Z]:\\\\|^[\\w-]+@[\\w.-]+:\\S* ?[$#%] "
                           "|^\\([\\w.-]+\\) (?:[\\w-]+@|[A-Z]:|PS )|^>>> \\S|^In \\[\\d+\\]: \\S"),
    [KIND_OUTPUT] = ANY_OF(
        "^\\[?\\d{4}[-/]\\d\\d[-/]\\d\\d[ T]\\d\\d:\\d\\d|^\\[?\\d\\d:\\d\\d:\\d\\d"
        "|^\\[ *\\d+\\.\\d+\\] |^[A-Z][a-z]{2} [ \\d]\\d \\d\\d:\\d\\d:\\d\\d "
        "|^(?:ERROR|WARNING|WARN|INFO|DEBUG|TRACE|FATAL|CRITICAL) |^\\W*" LEVEL
        "(?:[:\\]]|\\s*[\\[(|])|^[EWI]\\d{4} |^note: |^\\{(?!" SCHEMA ")\"[^\"]*\" ?:"
        "|^[\\w.]*(?:Error|Exception|Warning|Interrupt|Failure|Fault)[:(]|^Traceback \\(most"
        "|^(?:hip|cuda)Error[A-Z]\\w+: |^\\w*(?:Error|Exception) \\{ |^ggml_\\w+: "
        "|^thread '[^']*' (?:\\(\\d+\\) )?panicked at |^A module that was compiled using NumPy "
        "1\\.x"
        "|^NumPy \\d[\\d.]* as it may crash|^versions of NumPy, modules must be compiled"
        "|^Some module may need to rebuild instead|^If you are a user of the module, the easiest"
        "|^downgrade to 'numpy<2'"
        "|^CMake (?:Error|Warning)|^E  +\\S|^[\\w.-]+\\[\\d+\\]: |^Error!|^[\\w./+-]+\\(\\d+\\): "
        "|^/bin/\\w+: |^CUDA out of memory\\. Tried to allocate \\d"
        "|^\\d{1,3}%\\||\\d(?:it/s|s/it)\\]|^\\{'[^']{1,60}': .*\\}$" // tqdm's bars; a printed dict
        "|^File \"|^what\\(\\)|^terminate called|\\(core dumped\\)"
        "|^(?:Segmentation fault|Aborted|Killed|Illegal instruction)\\b"
        "|^/?[\\w./+-]+:\\d+(?::\\d+)?: "
        "|^[EWIF] [\\w./-]+\\.\\w+:\\d+\\] "
        "|^[\\w./-]+: (?:error|warning|symbol lookup|cannot|/|version|undefined|relocation|fatal)"
        "|^(?:Collecting|Downloading|Installing|Successfully|Using cached|Building wheel) "
        "|^The following packages have unmet|^[\\w.+:-]* ?:? ?Depends: |^E: [A-Z]|^Some packages "
        "could"
        "|^Auto-detected mode as |^/\\S+: No such file or "
        "directory$|^\"?hipErrorNoBinaryForGpu:[^\"]*\"?$"
        "|^[×x] No solution found when resolving|^(?:╰─▶|`->) Because |^hint: " // uv
        "|^(?:Skipping link: |Found link http|Link requires a different )"
        "|^(?:Setting up|Unpacking|Preparing to unpack|Selecting previously|Processing triggers)\\b"
        "|^(?:Get|Hit|Ign|Err):\\d+ |^Adding '?diversion |^update-alternatives: " // dpkg, APT
        "|^Requirement already|^Looking in|^(?!\\w+ *=).*0x[0-9a-f]{6,}|^NVRM|\\[Errno"
        "|^[\\w.-]+:\\d+:\\d+ \\[\\d+\\] "          // NCCL's: host, process, thread, GPU
        "|^\\[[\\w.:/-]+ @ (?:0x)?[0-9a-f]{6,}\\] " // FFmpeg's: part, its address
        "|^(?:docker|podman|nvidia-container-cli|modprobe|dkms|srun|slurmstepd|ollama|whisper|"
        "python\\d?"
        "|bash|sh|zsh|ffmpeg|nvcc|ld|gcc|make)(?:\\[\\d+\\])?: |^[\\w-]+-\\d+ *\\| "
        "|^(?!Version)[\\w.+-]+(?: +|=+)\\d+\\.\\d+[\\w.+]*$|^#\\d+ +(?:0x|\\[?\\d)"
        "|^\\|.*(?:MiB|NVIDIA-SMI|N/A)|\\bNVIDIA-SMI \\d+\\.\\d[\\d.]* +Driver Version: "
        "\\d|^\\+[-=]{3,}"
        "|^Could not (?:load library|locate) \\w[\\w+-]*\\.(?:so|dll)\\b|^Invalid handle\\. Cannot "
        "load"
        "|^Unable to load any of \\{|^Your kernel headers for kernel "
        "|^(?:ggml|gguf|llama|llm|whisper|clip|load|print|common)_\\w+: |^time=\\S+ "
        "level=|^level=[A-Z]|^\\[GIN\\] |^\\(\\w+ pid=\\d+\\) "
        "|^Failed to initialize NVML: [A-Z]|\\b[A-Za-z]*[a-z][A-Z]\\w*(?:\\([^)]*\\))?: ?-?\\d+ "
        "\\([A-Z]"
        "|^Error response from daemon: |^Process finished with exit code |^Press any key "
        "|^OSError: |^  at .*[:(]\\d+\\)"
        "|^[A-Z]:\\\\.*\\.py:\\d+: |\\[WinError|^CUDA[_ ]SETUP: |^EP Error |^={9,}"
        "|^NVIDIA-SMI (?:has failed|couldn't find)|^Make sure that the latest NVIDIA driver"
        "|^Please also try adding directory that contains libnvidia|^-- \\w|^nvcc fatal"
        "|^(?:\\d+ \\| *)?#error "
        "|^ninja: |^\\*{3} "
        /* what ComfyUI makes for a node that failed */
        "|^# ComfyUI Error Report|^- \\*\\*(?:Node (?:ID|Type)|Exception "
        "(?:Type|Message)|Arguments|OS"
        "|(?:ComfyUI|Python|PyTorch) Version|Embedded Python|Name|Type|(?:Torch )?VRAM "
        "(?:Total|Free))"
        ":\\*\\* |^(?:CUDA|HIP) kernel errors might be|^For debugging consider passing "
        "|^Compile with .TORCH_USE_"),
    [KIND_TEMPLATE] =
        "^[#*_ ]*(?:describe|steps|to reproduce|reproduc|expected|actual|environment|"
        "system info|logs?\\b|additional|versions?\\b|what happened|bug|issue|error|"
        "output|traceback|hardware|operating system|os\\b|platform|your env)[^.]{0,60}"
        "(?:[*_:]+)?$",
    [KIND_FIELD] =
        "^(?:[-*] +)?[*_]{2,3}(?:(?:my|your|the) )?(?:describe|steps|to reproduce|expected|actual|"
        "environment|system|error|message|output|result|problem|command|platform|os\\b|operating|"
        "distro|hardware|device|board|gpus?\\b|graphics|driver|nvidia|cuda|cudnn|rocm|python|"
        "(?:py)?torch|tensorflow|jetpack|l4t|kernel|docker|container|image|cpu|ram\\b|installation|"
        "installed|version|[\\w. -]{2,30} version|alternative|tried|what i|model)"
        "[^*]{0,40}[*_]{2,3} *:? *\\S|^my \\*\\*[^*]+\\*\\* ",
    [KIND_SELF] =
        "(?-i)\\b[Tt]his (?:guide|article|tutorial|how-to|(?:blog "
        ")?post|paper|report|page|document) "
        "(?:covers|explains|delves|provides|describes|lists|shows|walks|discusses|explores|"
        "will |aims)",
    [KIND_MARKUP] = ANY_OF(
        "^(?:\\|? *:?-{3,}:? *)(?:\\| *:?-{3,}:? *)+\\|?$|^[\\w.+-]+ \\([^)]+\\) [\\w -]+; urgency="
        "|^-- .*<[^>]+@[^>]+>|^\\d{4}-\\d\\d-\\d\\d +[A-Z][\\w. ]+ +<|^commit [0-9a-f]{7,}$"
        "|^- \\[[ x]\\] |^(?:[-*] |\\d+[.)] "
        ")?(?:Risks?|TO-?DO|FIX-?ME|Mitigations?|Agenda|Milestones?|Action items?"
        "|Open questions?|Next steps?|Assumptions?)\\b ?:"
        "|^[-*|] *[`*]{0,3}[1-5]\\d\\d[`*]{0,3} *[:|] *[A-Z][a-z]"
        "|^\\{? *" SCHEMA),
    [KIND_FORM] = ANY_OF(
        "^#{1,6} +[A-Z\\d`]|\\]\\((?:https?:|[./#\\w])[^)]*\\)|^\\.\\. [\\w-]+::"
        "|:(?:ref|doc|py:\\w+|class|func|meth|attr|issue|pr|pull|gh|cpp:\\w+):`"
        "|</?(?:p|a|div|li|ul|ol|br|img|td|tr|table|h[1-6]|code|pre|summary|details|span|strong"
        "|em|b|sup)(?: [^>]*)?/?>|\\*\\*[^*]+\\*\\*|\\((?:Closes|LP|Fixes|closes|fixes): ?#"
        "|^(?:Author|Date|Commit|Signed-off-by|Co-authored-by|Reviewed-by|Fixes|Closes|Maintainer"
        "|Home-page|Classifier|Requires-Dist|Author-email|Summary|License|Provides-Extra"
        "|Project-URL|Metadata-Version): |\\(?#\\d{2,6}\\)"
        "|^\\* [\\w/.+-]+(?: \\([^)]*\\)|\\.\\w+): |^[QA]: |^Subject: "
        "|^[-*+o] (?:[Ff]ix|[Aa]dd|[Rr]emove|[Uu]pdate|[Ss]upport|[Ii]mprove|[Cc]hange)[a-z]* "),
    [KIND_LABEL] = "(?-i)^[A-Z][a-z]+(?: \\d+)?: +[a-z]+(?: [\\w.,'-]+){2,}"
                   "|^[^, ][^,]*(?:,[^ ,][^,]*){2,}$",
    [KIND_CHAT] =
        "^(?:\\[?\\d\\d?:\\d\\d(?::\\d\\d)?(?: ?[ap]m)?\\]? *)?<[@+]?[a-z][\\w.-]*> "
        "|^(?:\\[?\\d\\d?:\\d\\d(?::\\d\\d)?(?: ?[ap]m)?\\]? *[-–]? *)?<?@?[a-z][\\w.-]{1,19}"
        ">?: +(?=.*(?:\\b(?:I|I'm|I've|you|your|my|we|hi|hello|hey|thanks|thx|ok|okay|yes|"
        "lol|maybe|did|try|then|it|that)\\b|\\?$))(?-i:[^A-Z]|[A-Z][a-z' ])",
    [KIND_SETTING] = ANY_OF("^(?:- )?[a-z][\\w.-]*:(?: *\"[^\"]*\")?$"),
    [KIND_CODE] = ANY_OF(
        "^(?:async )?(?:def|class) \\w+|^from [\\w.]+ import|^import [\\w.]+(?: as \\w+)?$"
        "|^(?:#include\\b|package \\w+$|using \\w|fn |func |pub |let |var |const |static |struct "
        "|enum |typedef |template|namespace )"
        "|^(?:if|elif|for|while|with|except|try|else|finally)\\b.*:$"
        "|^(?:return|raise|assert|yield|pass|break|continue|self\\.)\\b|[;{}]$|[}\"],$"
        "|^(?://|/\\*|\\*/)|^[\"']{3}|^@\\w"
        "|^[\\w.\\[\\]'\"]+(?:: [\\w.\\[\\], |]+)? [-+|]?= |^[\\w.]+\\(.*[,({]$|^[)\\]}]+,?:?$"
        "|^#+ ?[a-z]|^(?:FROM|RUN|ENV|CMD|COPY|ENTRYPOINT|WORKDIR|ARG|EXPOSE) \\S"),
};

size_t document_lines_count(void)
{
    return KINDS;
}

void document_lines_prepare(struct log_rules *r)
{
    r->document_lines = arena_array(r->arena, KINDS, sizeof *r->document_lines);
    for (size_t i = 0; i < KINDS; i++) {
        r->document_lines[i].text = expressions[i];
    }
}

/* ------------------------------------------------------------------ sentences */

/* Words that sentences are held together by, and that output of programs seldom has many of. */
static bool is_joining(struct str word)
{
    static const char *const words[] = {
        "the",   "a",     "an",     "of",    "to",    "is",   "are",  "was",   "were",
        "be",    "been",  "and",    "or",    "if",    "when", "that", "this",  "which",
        "with",  "for",   "from",   "by",    "as",    "on",   "in",   "at",    "it",
        "its",   "their", "there",  "these", "you",   "your", "we",   "our",   "they",
        "can",   "may",   "should", "must",  "will",  "not",  "no",   "so",    "because",
        "while", "than",  "then",   "into",  "only",  "also", "such", "any",   "all",
        "each",  "every", "more",   "most",  "other", "some", "how",  "what",  "where",
        "who",   "do",    "does",   "has",   "have",  "but",  "use",  "using", "used"};
    return is_listed(word, words, sizeof words / sizeof *words);
}

static bool is_personal(struct str word)
{
    return str_is(word, "I") || str_is(word, "I'm") || str_is(word, "I've") ||
           str_eq_nocase(word, str_of("my"));
}

static struct str bare_word(struct str word)
{
    while (word.n && strchr("\"'(", word.s[0])) {
        word = (struct str){word.s + 1, word.n - 1};
    }
    while (word.n && strchr("\"'.,;:!?)", word.s[word.n - 1])) {
        word.n--;
    }
    return word;
}

static bool is_plain_word(struct str word)
{
    for (size_t i = 0; i < word.n; i++) {
        bool inside = word.s[i] == '\'' || word.s[i] == '-';
        if (!str_is_letter(word.s[i]) && !inside) {
            return false;
        }
        if (i && word.s[i] >= 'A' && word.s[i] <= 'Z') {
            return false; // CUDA, cuDNN: names, of which output is full too
        }
    }
    return word.n > 0;
}

/* A sentence: six words or more, most of them of a language, some of which join the others. */
static enum kind sentence_kind(struct str line)
{
    enum { WORDS_MIN = 6, JOINING_MIN = 2, PHRASE_MIN = 3 };
    size_t words = 0, plain = 0, joining = 0;
    bool personal = false, advice = false;
    while (line.n) {
        struct str word = bare_word(str_cut(&line, ' '));
        if (!word.n) {
            continue;
        }
        words++;
        plain += is_plain_word(word);
        joining += is_joining(word);
        personal = personal || is_personal(word);
        advice =
            advice || str_eq_nocase(word, str_of("you")) || str_eq_nocase(word, str_of("your"));
    }
    bool sentence = words >= WORDS_MIN && joining >= JOINING_MIN && plain * 20 >= words * 11 &&
                    joining * 20 >= words * 3;
    if (!sentence) {
        return plain >= PHRASE_MIN && plain * 2 > words ? KIND_PHRASE : KIND_NONE;
    }
    return personal ? KIND_PERSONAL : advice ? KIND_ADVICE : KIND_SENTENCE;
}

/* How many sentences a line has if it is a paragraph, four or more: programs print up to three.
 * Indirect speech makes it one as well, and so do fifty words, however they are divided. */
static size_t sentences_count(struct str s)
{
    enum { PARAGRAPH_MIN = 4, LONG_WORDS = 50, WORDS_EACH = 12 };
    size_t n = str_find(s, " says that ") < s.n ? PARAGRAPH_MIN : 0, words = 1;
    for (size_t i = 0; i < s.n; i++) {
        words += s.s[i] == ' ';
    }
    for (size_t i = 0; i < s.n; i++) {
        bool ends = s.s[i] == '.' || s.s[i] == '!' || s.s[i] == '?';
        bool next = i + 2 < s.n && s.s[i + 1] == ' ' && s.s[i + 2] >= 'A' && s.s[i + 2] <= 'Z';
        n += ends && (next || i + 1 == s.n);
    }
    bool bars = str_find_char(s, '%') < s.n; // a terminal's, one behind the other
    n = !bars && words >= LONG_WORDS && n < words / WORDS_EACH ? words / WORDS_EACH : n;
    return n < PARAGRAPH_MIN ? 1 : n;
}

/* ------------------------------------------------------------------ lines */

struct counts {
    size_t lines, output, document, code, chat, settings;
    size_t below; // sentences that are a program's only if it printed something else too
    size_t messages;
    bool begins_with_output, ends_with_output;
    bool wraps;      // the sentence goes on in the next line
    bool announcing; // "When I run it, I get:"
    bool announced;  // that precedes the paragraph, or this line of it
    bool of_output;  // the paragraph is a program's
    bool prompted;   // that precedes in the paragraph
    bool began;      // a line of the paragraph was seen
    bool below_frame;
    bool prefixed; // a time or the name of a process precedes the line
};

static struct str without_bullet(struct str s)
{
    size_t n = 0;
    while (n < s.n && n < 3 && (str_is_digit(s.s[n]) || strchr("-*+.)", s.s[n]))) {
        n++;
    }
    return n && n < s.n && s.s[n] == ' ' ? (struct str){s.s + n + 1, s.n - n - 1} : s;
}

static enum kind line_kind(struct log_rules *r, struct str s)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (i != KIND_CHAT && regex_search(r, &r->document_lines[i], s.s, s.n, 0, NULL) > 0) {
            return (enum kind)i;
        }
    }
    return sentence_kind(without_bullet(s));
}

/* Whether this line has a message that a pattern knows; what people state does not count. */
static bool has_message(const struct log_rules *r, const struct log_result *found, uint64_t line,
                        bool by_place)
{
    for (size_t i = 0; i < found->n; i++) {
        const struct log_candidate *c = &found->candidates[i];
        for (size_t k = 0; k < c->n_evidence; k++) {
            const struct log_fact *fact = c->evidence[k];
            bool here = (by_place ? fact->place : fact->line) == line;
            if (here && !subjects_spoken(&r->subjects, fact)) {
                return true;
            }
        }
    }
    return false;
}

static bool has_letter(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (str_is_letter(s.s[i])) {
            return true;
        }
    }
    return false;
}

/* Whether several words stand in quotation marks: programs quote names, people quote messages. */
static bool has_quotation(struct str s)
{
    static const char marks[] = {'"', '`'};
    for (size_t i = 0; i < sizeof marks; i++) {
        for (struct str rest = s; rest.n;) {
            (void)str_cut(&rest, marks[i]);
            struct str inside = str_cut(&rest, marks[i]);
            if (rest.n && (marks[i] == '`' || str_find_char(inside, ' ') < inside.n)) {
                return true;
            }
        }
    }
    return false;
}

static void count_line(struct log_rules *r, struct str s, bool message, struct counts *c)
{
    enum { STORY_MIN = 4 }; // sentences in one line of somebody who tells a story
    enum kind kind = line_kind(r, s);
    c->prompted = c->prompted || kind == KIND_PROMPT;
    kind = kind == KIND_PROMPT ? KIND_OUTPUT : kind;
    size_t sentences = c->prefixed ? 1 : sentences_count(s);
    bool bullet = without_bullet(s).s != s.s;
    bool first = !c->began;
    c->began = c->began || has_letter(s);
    c->lines++;
    c->chat += regex_search(r, &r->document_lines[KIND_CHAT], s.s, s.n, 0, NULL) > 0;
    bool own = message && kind >= KIND_CODE && !bullet && !strchr("|#/*@", s.s[0]) &&
               !has_quotation(s) && !c->wraps;
    own = own || (message && kind == KIND_FIELD && !has_quotation(s));
    c->messages += own;
    if (own && (kind == KIND_CODE || kind == KIND_NONE || kind == KIND_PHRASE)) {
        kind = KIND_OUTPUT;
    } else if (own && kind == KIND_SENTENCE && c->prompted) {
        kind = KIND_OUTPUT; // a message in whole words
    }
    c->of_output = c->of_output || (own && first);
    c->wraps =
        kind >= KINDS && kind != KIND_NONE && !c->announced && !strchr(".:!?)}", s.s[s.n - 1]);
    c->of_output = c->of_output || (own && c->announced);
    c->announcing = kind == KIND_PERSONAL && s.s[s.n - 1] == ':';
    c->announced = c->announced || c->announcing;
    c->begins_with_output = c->begins_with_output || (c->lines == 1 && kind == KIND_OUTPUT);
    c->of_output = c->of_output || kind == KIND_OUTPUT;
    c->ends_with_output = kind == KIND_OUTPUT && message;
    bool below_frame = c->below_frame;
    c->below_frame = str_starts(s, "File \"");
    if (kind == KIND_OUTPUT || below_frame) {
        c->output++;
    } else if (kind == KIND_SELF) {
        c->document += 12; // four lines of output that it quotes
    } else if (kind == KIND_MARKUP) {
        c->document += 4;
    } else if (kind == KIND_FORM) {
        c->document += 2;
    } else if (kind == KIND_LABEL) {
        c->document++;
    } else if (kind == KIND_SENTENCE || kind == KIND_ADVICE ||
               (kind == KIND_PERSONAL && sentences >= STORY_MIN)) {
        size_t weight = sentences * (bullet || kind == KIND_ADVICE ? 2 : 1);
        *(c->of_output && !bullet ? &c->below : &c->document) += weight;
    } else if (kind == KIND_PHRASE && bullet) {
        c->document++;
    } else if (kind == KIND_CODE) {
        c->code++;
    } else if (kind == KIND_SETTING) {
        c->settings++;
    }
}

/* One line of the text, as a terminal shows it, behind its prefixes. */
static void take_document_line(struct log_rules *r, struct str raw, bool message, struct counts *c)
{
    char clean[LOG_LINE_MAX];
    raw.n = raw.n < sizeof clean ? raw.n : sizeof clean;
    struct log_line line = {.text = clean, .n = line_clean(raw.s, raw.n, clean)};
    line_prefix(&line);
    struct str s = str_trim((struct str){clean + line.body, line.n - line.body});
    if (!s.n) {
        c->announced = c->announcing;
        c->of_output = c->prompted = c->began = c->below_frame = c->wraps = false;
        return;
    }
    if (!str_is_utf8(s.s, s.n)) {
        return;
    }
    c->prefixed = line.body > 2; // no document has these
    c->output += c->prefixed;
    count_line(r, s, message, c);
}

/* The last line of a warning of Python that begins here and goes over several lines: the one of the
 * source that gave it ("  warnings.warn("), which Python prints below (warnings.py). 0: it is none.
 */
static uint64_t warning_end(struct str line, struct str rest, uint64_t number)
{
    enum { WARNING_LINES_MAX = 60 };
    struct str next;
    if (str_find(line, "Warning: ") == line.n || str_find(line, ".py:") == line.n) {
        return 0;
    }
    for (size_t i = 0; i < WARNING_LINES_MAX && str_line(&rest, &next); i++) {
        if (str_starts(str_trim(next), "warnings.warn(")) {
            return number + i + 1;
        }
    }
    return 0;
}

bool document_describes(struct log_rules *r, struct str head, const struct log_result *found,
                        bool by_place)
{
    enum {
        DOCUMENT_MIN = 4,
        LINES_MIN = 3,
        BEHIND_OUTPUT = 6,
        CODE_MIN = 4,
        MIXED_MIN = 8,
        CHAT_MIN = 4
    };
    struct counts c = {0};
    struct str line;
    uint64_t warned = 0;
    for (uint64_t number = 1; str_line(&head, &line); number++) {
        bool inside = number <= warned;
        warned = inside ? warned : warning_end(line, head, number);
        if (number <= warned) { // one message, whatever it says
            c.output += !inside;
            c.lines++;
            continue;
        }
        take_document_line(r, line, has_message(r, found, number, by_place), &c);
    }
    size_t document = c.document + (c.chat >= CHAT_MIN ? 2 * c.chat : 0);
    document += c.output ? 0 : c.below;
    size_t least = 3 * c.output + (c.begins_with_output || c.ends_with_output ? BEHIND_OUTPUT : 0);
    size_t enough = c.output || c.messages || c.lines < LINES_MIN ? DOCUMENT_MIN : DOCUMENT_MIN / 2;
    return (document >= enough && document > least) ||
           (c.code >= CODE_MIN && c.code > 4 * c.output && c.code * 3 > c.lines) ||
           (c.settings >= CODE_MIN && !c.output && c.settings * 3 > c.lines) ||
           (document + c.code >= MIXED_MIN && document + c.code > least);
}
