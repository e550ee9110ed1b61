#!/bin/bash
# Runs the kernel matrix in shards on a Slurm cluster. Run it in a clone of the repository on a file
# system that all nodes share:
#
#   docs/slurm.sh [SBATCH-OPTION...] test-kernel-all|test-kernel [VARIABLE=VALUE...]
#
#   docs/slurm.sh --partition=long test-kernel-all
#   SHARDS=20 docs/slurm.sh test-kernel KERNELS='6.*-cloud' TESTS='t_exit*'
#
# The operands are a target of make and its variables. The script builds the images of guests before
# it submits jobs (PREPARED=1 uses existing images). So nodes need qemu and make, but no network.
# They also need Go, unless PKG= is given or an operand selects no Go tests. No node needs
# privileges or /dev/kvm.
#
# An array job runs SHARDS shards (6). A second job merges their results in RESULTS
# (build/slurm-TARGET): merge.txt has the table, shards/I.txt the output of shard I. If a node fails
# or a shard is preempted, Slurm queues the shard again. A killed shard queues itself again, at most
# twice. Guests that passed are cached and do not run again. The second job fails if a guest failed
# or has not run.
#SBATCH --cpus-per-task=4
#SBATCH --mem=6G
set -euo pipefail

die() {
	echo "docs/slurm.sh: $*" >&2
	exit 2
}

submit() {
	local options=() target name root job
	while [[ ${1-} == -* ]]; do
		options+=("$1")
		shift
	done
	target=${1-}
	case $target in
	test-kernel-all | test-kernel) ;;
	*) die "which target: test-kernel-all or test-kernel?" ;;
	esac
	shift
	root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
	cd "$root"
	SHARDS=${SHARDS:-6}
	[[ $SHARDS =~ ^[1-9][0-9]*$ ]] || die "SHARDS=$SHARDS: a number from 1 is wanted"
	RESULTS=$(realpath -m -- "${RESULTS:-build/slurm-$target}")
	# Nodes may have no Go, which the Makefile asks for these.
	if command -v go >/dev/null; then
		export GOARCH=${GOARCH:-$(go env GOARCH)} GOHOSTARCH=${GOHOSTARCH:-$(go env GOHOSTARCH)}
	fi
	[[ -n ${PREPARED-} ]] || make --no-print-directory "$target" STEP=prepare "$@"
	# Results of an earlier submission would count for a shard that is killed at once.
	rm -rf -- "$RESULTS/shards"
	mkdir -p -- "$RESULTS/shards"
	rm -f -- "$RESULTS/merge.txt"
	name=(--parsable --chdir="$root" --job-name="quark-$target" --export=ALL)
	export SHARDS RESULTS
	job=$(sbatch "${name[@]}" --array="1-$SHARDS" --requeue --open-mode=append \
		--output="$RESULTS/shards/%a.txt" "${options[@]}" "$root/docs/slurm.sh" run "$target" "$@")
	job=${job%%;*} # the cluster's name may follow
	merge=$(sbatch "${name[@]}" --dependency="afterany:$job" --output="$RESULTS/merge.txt" \
		"${options[@]}" --cpus-per-task=1 --mem=1G "$root/docs/slurm.sh" merge "$target" "$@")
	echo "$SHARDS shards are job $job; job ${merge%%;*} merges them into $RESULTS/merge.txt"
}

# run runs one shard. Its job succeeds when it has results: what they say is for the merge to tell.
run() {
	local target=$1 dir
	shift
	dir=$RESULTS/shards/$SLURM_ARRAY_TASK_ID
	echo "shard $SLURM_ARRAY_TASK_ID/$SHARDS on $(hostname), start $((${SLURM_RESTART_COUNT:-0} + 1))"
	make --no-print-directory "$target" STEP=run SHARD="$SLURM_ARRAY_TASK_ID/$SHARDS" MATRIX="$dir" \
		GUEST_JOBS=$(((3 * ${SLURM_CPUS_PER_TASK:-1} + 1) / 2)) "$@" || true
	[[ ! -e $dir/results.json ]] || return 0
	if ((${SLURM_RESTART_COUNT:-0} < 2)); then
		echo "shard $SLURM_ARRAY_TASK_ID/$SHARDS has no results: it is queued again"
		scontrol requeue "$SLURM_JOB_ID"
		sleep 60 # until Slurm ends this job
	fi
	die "shard $SLURM_ARRAY_TASK_ID/$SHARDS has no results after $((SLURM_RESTART_COUNT + 1)) starts"
}

merge() {
	"build/${GOHOSTARCH:-$(go env GOHOSTARCH)}/quark-matrix" merge -o "$RESULTS" "$RESULTS"/shards/*/
}

# Only in a job are these two words of this script.
if [[ -n ${SLURM_JOB_ID-} && ${1-} =~ ^(run|merge)$ ]]; then
	"$@"
else
	submit "$@"
fi
