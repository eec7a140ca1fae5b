#!/bin/bash
# Written by accel-run submit: machines=1 ranks_per_machine=2
#SBATCH --job-name=digits-2
#SBATCH --chdir="/home/ada/my project"
#SBATCH --output="runs/Digits 2/submit/slurm-%j.out"
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --signal=USR1@120
set -u

# The rendezvous of the machines, with a new token for each attempt.
PET_MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
ACCEL_RUN_JOB_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export PET_MASTER_ADDR ACCEL_RUN_JOB_TOKEN
export PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export PET_NNODES=$SLURM_JOB_NUM_NODES
export ACCEL_RUN_SLURM_COMMENT=1
export PET_NPROC_PER_NODE=2

codes='runs/Digits 2/submit/codes'.$SLURM_JOB_ID
failures='runs/Digits 2/submit/failures'.$SLURM_JOB_ID
export codes
rm -f "$codes"

# One launcher per machine. bash waits for it through the signals of Slurm.
# shellcheck disable=SC2016
srun --kill-on-bad-exit=0 \
  bash -c 'trap : USR1 TERM; PET_NODE_RANK=$SLURM_NODEID "$@"; code=$?; echo $code >> "$codes"; exit $code' machine \
  accel-run run 'runs/Digits 2/submit/recipe.yaml'
code=$?

if grep -qxE '2|3|4|9|11' "$codes"; then
  echo "accel-run: exit code $(grep -xE '2|3|4|9|11' "$codes" | head -n 1): no restart"
elif [ "$code" -eq 0 ]; then
  rm -f "$failures"
elif grep -qx 75 "$codes"; then
  echo "accel-run: saved and stopped, requeueing"
  scontrol requeue "$SLURM_JOB_ID"
else
  echo "$code" >> "$failures"
  count=$(wc -l < "$failures")
  if [ "$count" -le 3 ]; then
    echo "accel-run: exit code $code, restart $count of at most 3"
    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$code"
