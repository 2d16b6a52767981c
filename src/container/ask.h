/*
 * How a container is asked to give it a GPU: shared by the vendors and Kubernetes (ask_*.c), and by
 * ask.c, which decides whose turn it is.
 */
#ifndef GPUMEND_CONTAINER_ASK_H
#define GPUMEND_CONTAINER_ASK_H

#include "container/internal.h"

/* What is wrong with the engine's own settings on this host. */
void container_repair_engine(struct container_work *w);

/* NVIDIA_DRIVER_CAPABILITIES says which of the driver's libraries the toolkit injects. What the
 * image states itself stays. */
void container_add_capabilities(struct container_work *w);

/* Passes a device node on, and the group that may open it. */
void container_work_add_node(struct container_work *w, const struct host_node *n,
                             const char *reason);

/* Integrated graphics only where nothing else of the vendor is there: programs take it for one more
 * device to compute with. */
void container_add_nodes(struct container_work *w, enum host_vendor vendor, const char *reason);

/* What was selected and is in no file of the host, so that it may be right or wrong. */
void container_work_note_unknown(struct container_work *w);

/* The device cgroup of a container is a list of numbers. */
void container_allow(struct container_work *w, const char *path);

/* Asks for the NVIDIA GPUs in the form of the question. */
void container_use_nvidia(struct container_work *w);

/* Asks by a claim of dynamic resource allocation. */
void container_use_claim(struct container_work *w);

/* Asks by the resource name of a vendor's device plugin. */
void container_use_plugin(struct container_work *w);

#endif
