#!/bin/sh
# Writes what gpumend sees of this node to its Features and its Extra in Slurm, for
# `gpumend needs --as slurm` and `--as slurm-extra`. Start it as root when the node boots and after an
# update of the driver: by cron, by a unit after slurmd, or by Ansible.
#
# Features that do not begin with "gpumend" stay as they are. An Extra that is not gpumend's stays, too.
# Where gpumend or Slurm fails, nothing is changed.
GPUMEND=${GPUMEND:-/usr/local/bin/gpumend}
node=${SLURMD_NODENAME:-$(hostname -s)}

look() {
    timeout -k 5 60 "$GPUMEND" export "$1" 2>/dev/null
}

features=$(look slurm-features) && extra=$(look slurm-extra) || exit 1
case $features in gpumend*) ;; *) exit 1 ;; esac
seen=$(scontrol --oneliner show node "$node") || exit 1

# What the administrator wrote. Only names of features can be between "AvailableFeatures=" and a blank.
kept=$(printf '%s\n' "$seen" | sed -n 's/.* AvailableFeatures=\([^ ]*\) .*/\1/p' | tr , '\n' |
    grep -v -e '^gpumend' -e '^(null)$' | paste -s -d , -)
all=${kept:+$kept,}$features
scontrol update NodeName="$node" AvailableFeatures="$all" ActiveFeatures="$all" || exit 1

case $seen in
*' Extra={"gpumend_'*) ;;
*' Extra='*) exit 0 ;;
esac
scontrol update NodeName="$node" Extra="$extra"
