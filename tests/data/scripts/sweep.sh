#!/bin/sh
#SUBMIT --job-name=sweep --output=/dev/null --time=10
echo "$SUBMIT_ARRAY_TASK_ID" >> "$SWEEP_DIR/ran"
