#!/bin/sh
# How long a burst of sequential writes stays fast, by how full the drive is. The cliff is where an interval
# writes less than seven tenths of the first ones. Drives have a tenth of their blocks: GB are those of the
# whole drive, ten times as many. By hand: flash, less what is kept free (gc.start or slc.keep_free) and what
# is full, over the bits of a cell; whole blocks of so few cost up to 6 GB of that.
#
#   experiments/slc/burst.sh [DRIVE...]
set -eu
mynah=${MYNAH:-mynah}
[ $# -gt 0 ] || set -- wd-sn580 xpg-atom-50 samsung-980-pro-1tb
intervals=$(mktemp)
trap 'rm -f "$intervals"' EXIT
echo "drive                 full  cliff at  before it  behind it"
for drive; do
    blocks=
    [ "$drive" != samsung-980-pro-1tb ] || blocks=--set=geometry.blocks_per_plane=137
    for full in 0 25 50 75 90; do
        start=fill
        [ "$full" != 0 ] || start=none
        "$mynah" sim --drive "$drive" ${blocks:+"$blocks"} --set mapping.unit=32KiB -q --precondition "$start" \
            --occupancy "$full" --rw write --bs 1m --iodepth 8 --offset "$full%" --size $((100 - full))% \
            --intervals "$intervals" --interval 50ms
        awk -F, -v drive="$drive" -v full="$full" '
            $4 == "*" { n++; written += $10 / 20; rate[n] = $10; at[n] = written }
            END {
                fast = (rate[2] + rate[3]) / 2
                for (cliff = 4; cliff < n && rate[cliff] > 0.7 * fast; cliff++);
                for (i = cliff + 1; i <= n && i < cliff + 41; i++) after += rate[i]
                printf "%-20s %3d %% %6.0f GB  %4.2f GB/s  %4.2f GB/s\n", drive, full, at[cliff] / 1e8,
                    at[cliff - 1] * 20 / (cliff - 1) / 1e9, after / (i - cliff - 1) / 1e9
            }' "$intervals"
    done
done
