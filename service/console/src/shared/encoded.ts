/** The name in the DNS, if the displayed name lacks it: for a zone file, or for dig. */
export function encoded(name: string, display_name: string): string | null {
  return display_name.includes(name) ? null : name;
}
