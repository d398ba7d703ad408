/** Creates a deleted person again, in the groups and with the policies of before. Computers cannot come back: their keys are gone. */
import { api, body, tagged } from "../api/client";
import { written } from "../policies/form";
import type { Policy } from "../policies/queries";
import type { Person } from "./queries";

export interface Lost {
  groups: string[];
  /** The policies for this person alone. */
  policies: Policy[];
}

/** To be read before the deletion. */
export async function whatIsLost(name: string): Promise<Lost> {
  const use = body(await api.GET("/api/v1/users/{name}/use", { params: { path: { name } } }));
  const policies = use.policies_deleted.map(
    async (policy) =>
      tagged(await api.GET("/api/v1/policies/{name}", { params: { path: { name: policy } } })).row,
  );
  return { groups: use.groups, policies: await Promise.all(policies) };
}

export async function restored({ name, display_name, email }: Person, lost: Lost): Promise<void> {
  await api.POST("/api/v1/users", { body: { name, display_name, email } });
  for (const group of lost.groups)
    await api.PUT("/api/v1/groups/{name}/members/{user}", { params: { path: { name: group, user: name } } });
  for (const policy of lost.policies) await api.POST("/api/v1/policies", { body: written(policy) });
}
