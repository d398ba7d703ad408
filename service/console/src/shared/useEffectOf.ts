import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";

const PAUSE_MS = 300;

/** Asks for the effect of a form's content, once the typing pauses. `body` null: nothing is asked. */
export function useEffectOf<Body, Effect>(
  area: string,
  name: string | null,
  body: Body | null,
  ask: (body: Body) => Promise<Effect>,
): UseQueryResult<Effect> {
  const [key] = useDebouncedValue(JSON.stringify(body), PAUSE_MS);
  return useQuery({
    queryKey: [area, "effect", name, key],
    queryFn: () => ask(JSON.parse(key) as Body),
    enabled: key !== "null",
    placeholderData: keepPreviousData,
    staleTime: 0,
    retry: false,
  });
}
