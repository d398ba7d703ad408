/** The name in the DNS, where what is shown of it has not got it: for a zone file, or for dig. */
export function encoded(name: string, display_name: string): string | null {
  return display_name.includes(name) ? null : name;
}
