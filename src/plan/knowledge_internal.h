/*
 * What may be installed here: shared by the machine and the packages that serve a library
 * (knowledge.c), the reasons against a release (knowledge_refuses.c), and the releases of a package
 * (knowledge_releases.c).
 */
#ifndef GPUMEND_PLAN_KNOWLEDGE_INTERNAL_H
#define GPUMEND_PLAN_KNOWLEDGE_INTERNAL_H

#include "plan/knowledge.h"

/* What the package index serves is for CUDA; an installed build for the CPU or for AMD asks for
 * other libraries, and another release would be another build. */
bool plan_knowledge_is_other_build(const struct plan_knowledge *k, const char *package);

/* The CUDA major of the libraries that a package has; -1: none is known. */
int plan_knowledge_cuda_major_of_package(const struct plan_knowledge *k, const char *package);

/* By PEP 440 where both are such versions. */
int plan_knowledge_cmp_versions(const char *a, const char *b);

/* Why the driver cannot run this CUDA, or NULL. */
const char *plan_knowledge_driver_refuses(const struct plan_knowledge *k, const char *cuda);

/* Why the build does not serve a GPU of the machine, or NULL. */
const char *plan_knowledge_gpu_refuses(const struct plan_knowledge *k, const struct kb_build *b);

/* The first reason against a release, a clause, or NULL. */
const char *plan_knowledge_refuses(const struct plan_knowledge *k, const struct kb_release *r);

#endif
