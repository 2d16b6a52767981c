/*
 * The answers of fleet/fleet.h as statements for engines that people already have: over lines of
 * `gpumend export ndjson` as they are, without a table or an import. docs/fleet.md has the columns,
 * which stay.
 *
 * Of one node the newest line counts, as in a report; lines that are no JSON, or that name no node,
 * are passed over.
 */
#ifndef GPUMEND_FLEET_QUERY_H
#define GPUMEND_FLEET_QUERY_H

#include "base/arena.h"

enum fleet_engine { FLEET_DUCKDB, FLEET_CLICKHOUSE, FLEET_ENGINES };

/* "duckdb", "clickhouse"; FLEET_ENGINES: it is neither. */
enum fleet_engine fleet_engine_of(const char *name);

/* One statement with its ";", over these files (names may be patterns of the engine); NULL: there
 * is no such query. The names: "nodes", "causes", "cohorts", "differs", "changed". */
const char *fleet_query(struct arena *a, enum fleet_engine engine, const char *name,
                        const char *const *files, size_t n);

/* The i-th name; NULL: there are no more. */
const char *fleet_query_name(size_t i);

#endif
