/** Safe sysctls: they are namespaced and cannot harm other pods. */
import type { PodSpec } from "../types/pod.ts";

/** Every kernel that Node.js 24 supports has these sysctls. Source: pkg/kubelet/sysctl/safe_sysctls.go. */
const SAFE_SYSCTLS: readonly string[] = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.ping_group_range",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_wmem",
  "net.ipv4.tcp_slow_start_after_idle",
  "net.ipv4.tcp_notsent_lowat",
];

/** Returns why the first forbidden sysctl is rejected, or undefined. Source: pkg/kubelet/sysctl/allowlist.go Admit. */
export function forbiddenSysctl(spec: PodSpec): string | undefined {
  for (const { name: written } of spec.securityContext?.sysctls ?? []) {
    const name = withDots(written);
    if (!SAFE_SYSCTLS.includes(name)) return `"${name}" not allowlisted`;
    const isOfNet = name.startsWith("net.");
    if (isOfNet && spec.hostNetwork === true) return `"${name}" not allowed with host Net enabled`;
    if (!isOfNet && spec.hostIPC === true) return `"${name}" not allowed with host IPC enabled`;
  }
  return undefined;
}

/** Converts slash notation, such as `net/ipv4/tcp_rmem`, to dot notation. A dot in slash notation becomes a slash. */
export function withDots(name: string): string {
  const separator = /[./]/u.exec(name)?.[0];
  return separator === "/" ? name.replaceAll(/[./]/gu, (mark) => (mark === "." ? "/" : ".")) : name;
}
