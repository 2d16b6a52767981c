#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "snapshot/internal.h"

/*
 * Beginnings of tokens, as their services document them: Hugging Face, GitHub, GitLab, OpenAI and
 * Anthropic, Slack, AWS, NVIDIA NGC, PyPI, and JSON Web Tokens (RFC 7519: the header in base64).
 */
static const char *const token_heads[] = {
    "hf_", "ghp_", "gho_", "ghu_", "ghs_",   "github_pat_", "glpat-", "sk-",
    "xox", "AKIA", "ASIA", "npm_", "nvapi-", "pypi-",       "eyJ",
};
enum { TOKEN_MIN = 16 }; // characters; shorter words are none

static const char hidden[] = "<hidden>";

static bool is_token_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* The length of the token that begins here; 0: none does. */
static size_t token_at(const char *text, const char *at)
{
    size_t n = 0;
    if (at != text && isalnum((unsigned char)at[-1])) {
        return 0; // in the middle of a word
    }
    for (size_t i = 0; i < sizeof token_heads / sizeof *token_heads; i++) {
        if (starts_with(at, token_heads[i])) {
            while (is_token_char(at[n]) || (at[n] == '.' && is_token_char(at[n + 1]))) {
                n++;
            }
            break;
        }
    }
    return n >= TOKEN_MIN ? n : 0;
}

/* "user:password@" behind "://"; 0: the URL names no user. */
static size_t user_at(const char *text, const char *at)
{
    if (at - text < 3 || memcmp(at - 3, "://", 3) != 0) {
        return 0;
    }
    size_t n = strcspn(at, "/?# \t\"'"), last = 0;
    for (size_t i = 0; i < n; i++) {
        last = at[i] == '@' ? i : last;
    }
    return last;
}

/* Parts of names that say that the value is a secret. */
static const char *const secret_words[] = {"TOKEN", "SECRET",     "PASSW",  "KEY",
                                           "AUTH",  "CREDENTIAL", "PRIVATE"};

bool snapshot_names_secret(struct str name)
{
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++) {
        size_t n = strlen(secret_words[i]);
        for (size_t at = 0; at + n <= name.n; at++) {
            if (strncasecmp(name.s + at, secret_words[i], n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The value behind "NAME=" or "NAME:", where the name says that it is a secret. */
static size_t value_at(const char *text, const char *at)
{
    if (at == text || (at[-1] != '=' && at[-1] != ':')) {
        return 0;
    }
    const char *end = at - 1, *name = end;
    while (name > text && is_token_char(name[-1])) {
        name--;
    }
    return snapshot_names_secret((struct str){name, (size_t)(end - name)})
               ? strcspn(at, " \t&;,:'\"()/")
               : 0;
}

const char *snapshot_hide_secrets(struct arena *a, const char *text)
{
    static size_t (*const secrets[])(const char *, const char *) = {token_at, user_at, value_at};
    const char *out = "", *from = text;
    for (const char *at = text; *at;) {
        size_t n = 0;
        for (size_t i = 0; i < sizeof secrets / sizeof *secrets && n == 0; i++) {
            n = secrets[i](text, at);
        }
        if (n) {
            out = arena_printf(a, "%s%.*s%s", out, (int)(at - from), from, hidden);
            from = at + n;
        }
        at += n ? n : 1;
    }
    return from == text ? text : arena_printf(a, "%s%s", out, from);
}
