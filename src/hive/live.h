/*
 * The registry of the Windows that gpumend runs in, as hives (hive/hive.h): it lets nobody open its
 * files, and answers through RegOpenKeyEx() instead. What host/windows.c reads is copied into a
 * hive in memory, so that one reader serves both, and a snapshot can hold it.
 *
 *     SYSTEM    the control set in use as ControlSet001: Session Manager with its KnownDLLs and
 *               Environment, FileSystem, the drivers of the display class, the PCI devices
 *     SOFTWARE  Windows NT\CurrentVersion, Python
 *     USER      Environment and Software\Python of the user who runs gpumend
 */
#ifndef GPUMEND_HIVE_LIVE_H
#define GPUMEND_HIVE_LIVE_H

#include "base/arena.h"
#include "base/str.h"

/* The hive of that name, in the arena. False: this is no Windows, or it could not be read. */
bool hive_live(struct arena *a, const char *name, struct str *ret);

/* The folder of the user who runs gpumend, "C:\\Users\\me"; NULL: this is no Windows. */
const char *hive_live_profile(struct arena *a);

#endif
