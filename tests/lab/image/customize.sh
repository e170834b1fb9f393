#!/bin/sh
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Runs inside the new root file system, after the packages and the overlay are in place.
# Everything that only costs boot time in emulation is switched off here.
set -e
units=/etc/systemd/system

# In charge of nothing until netplan gives it files; running, so that netplan only has to tell it.
systemctl enable systemd-networkd.service

mask() { for unit in "$@"; do ln -sf /dev/null "$units/$unit"; done; }
mask systemd-udev-settle.service e2scrub_reap.service e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer fstrim.timer systemd-pstore.service NetworkManager-wait-online.service \
    systemd-networkd-wait-online.service getty@tty1.service serial-getty@ttyS0.service systemd-timesyncd.service \
    sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount systemd-random-seed.service \
    systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-journal-flush.service systemd-update-utmp.service \
    systemd-hwdb-update.service rdma-ndd.service iwpmd.service iperf3.service modprobe@drm.service \
    modprobe@efi_pstore.service systemd-modules-load.service systemd-firstboot.service systemd-rfkill.service \
    systemd-rfkill.socket sshd-keygen.service systemd-bsod.service remote-fs.target ldconfig.service \
    systemd-journal-catalog-update.service systemd-update-done.service systemd-logind.service \
    sys-fs-fuse-connections.mount sys-kernel-config.mount modprobe@fuse.service modprobe@configfs.service \
    kmod-static-nodes.service systemd-sysusers.service systemd-udev-load-credentials.service \
    systemd-networkd-persistent-storage.service systemd-boot-update.service systemd-pcrphase.service run-lock.mount \
    systemd-tmpfiles-clean.timer systemd-tmpfiles-setup-dev-early.service
rm -f "$units"/timers.target.wants/* "$units"/network-online.target.wants/*
# There, but not in charge: a test starts them where it wants them.
rm -f "$units"/multi-user.target.wants/lldpd.service "$units"/multi-user.target.wants/NetworkManager.service \
    "$units"/dbus-org.freedesktop.nm-dispatcher.service
rm -f /usr/lib/systemd/system-generators/systemd-ssh-generator
ln -sf /usr/lib/systemd/system/multi-user.target "$units/default.target"
mkdir -p "$units/multi-user.target.wants"
for unit in lab-management lab-hostkey lab-rdma lab-agent lab-console; do
    ln -sf "../$unit.service" "$units/multi-user.target.wants/$unit.service"
done

# No logind: its session set-up only waits. pam_limits (locked memory) stays.
sed -i '/pam_systemd/d' /etc/pam.d/common-session*
sed -i '/pam_motd/d; /pam_mail/d' /etc/pam.d/sshd

useradd --create-home --shell /bin/bash --groups sudo spark
echo spark:spark | chpasswd
for home in /root /home/spark; do
    mkdir -p "$home/.ssh"
    cp /lab/authorized_keys "$home/.ssh/authorized_keys"
    chmod 700 "$home/.ssh"
    chmod 600 "$home/.ssh/authorized_keys"
done
chown -R spark:spark /home/spark/.ssh

rm -f /etc/ssh/ssh_host_* /etc/hostname /etc/resolv.conf /etc/apt/apt.conf.d/99mmdebstrap
: > /etc/resolv.conf
: > /etc/machine-id
mkdir -p /etc/netplan
find /usr/lib/sparklab -type f -exec chmod 755 {} +
rm -rf /lab /var/cache/apt/* /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
touch /etc/.updated /var/.updated
