/* Any bytes as a registry hive: keys and values are read as deep as they go. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hive/hive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 4096, CHECKED = 508 };

struct seen {
    const struct hive *hive;
    struct arena *arena;
    unsigned left; // of keys, since a damaged hive may lead in a circle
};

static void see_values(struct seen *s, struct hive_key key)
{
    struct gm_err err;
    hive_values_list values;
    uint32_t number;
    if (hive_values(s->hive, s->arena, key, &values, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < values.n; i++) {
        const struct hive_value *v = &values.items[i];
        struct hive_value same;
        (void)hive_text(s->arena, v);
        (void)hive_number(v, &number);
        if (str_is_utf8(v->name, strlen(v->name))) {
            (void)hive_value(s->hive, s->arena, key, v->name, &same, &err);
        }
    }
}

static void see_key(struct seen *s, struct hive_key key)
{
    struct gm_err err;
    hive_subkeys_list keys;
    if (s->left == 0) {
        return;
    }
    s->left--;
    see_values(s, key);
    if (hive_subkeys(s->hive, s->arena, key, &keys, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < keys.n && i < 64; i++) {
        see_key(s, keys.items[i].key);
    }
}

/* The checksum is set right, so that what is behind it is reached. */
static uint8_t *with_checksum(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert(copy);
    memcpy(copy, data, size);
    uint32_t sum = 0;
    for (size_t i = 0; size >= BLOCK && i < CHECKED; i += 4) {
        uint32_t word;
        memcpy(&word, copy + i, sizeof word);
        sum ^= word;
    }
    if (size >= BLOCK) {
        sum = sum == 0 ? 1 : sum == UINT32_MAX ? UINT32_MAX - 1 : sum;
        memcpy(copy + CHECKED, &sum, sizeof sum);
    }
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct hive hive;
    struct gm_err err;
    struct hive_key key;
    arena_init(&arena, (size_t)512 << 20, NULL, NULL);
    uint8_t *copy = with_checksum(data, size);
    if (hive_open(&hive, copy, size, &err) == 0) {
        struct seen seen = {&hive, &arena, 256};
        see_key(&seen, hive_root(&hive));
        (void)hive_find(&hive, hive_root(&hive), "Select\\Current", &key, &err);
        (void)hive_find(&hive, hive_root(&hive), "", &key, &err);
    } else {
        assert(err.code == GM_ERR_FORMAT);
    }
    free(copy);
    arena_release(&arena);
    return 0;
}
