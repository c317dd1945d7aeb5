import { drainServer, getCluster, moveOwner, rebalance } from "../api/client";
import type { Group, Server } from "../api/types";
import { count, number, seconds } from "../format";
import { useMay } from "../ui/may";
import { useLoad } from "../ui/load";
import { useNotice } from "../ui/notice";
import { Busy, Failure, Num, Scroll } from "../ui/parts";

const REFRESH = 2000;

const STATES: Record<string, string> = {
  STATE_OWNER: "owner",
  STATE_VOTER: "standby",
  STATE_JOINING: "joining",
};

/** ServersPage lists the servers of the cluster. */
export function ServersPage() {
  const may = useMay(), admin = may.admin && may.all;
  const list = useLoad(getCluster, [], REFRESH);
  const cluster = list.value;
  const servers = cluster?.servers ?? [];
  return (
    <>
      <div class="heading"><h1>Servers</h1></div>
      <Failure error={list.error} />
      {cluster && !cluster.server && <p class="empty">This server is not in a cluster.</p>}
      {cluster?.server && !cluster.owner && <p class="failure" role="alert">No server owns the models: changes wait, predictions are answered.</p>}
      {servers.length > 0 && (
        <>
          <Scroll label="Servers">
            <table class="models" aria-busy={list.loading}>
              <thead>
                <tr>
                  <th scope="col">Server</th><th scope="col">State</th><th scope="col">Answers</th><th scope="col" class="right">Applied</th>
                  <th scope="col" class="right">Behind</th><th scope="col" class="right">Age</th><th scope="col">Version</th>
                  {admin && <th><span class="unseen">Change</span></th>}
                </tr>
              </thead>
              <tbody>{servers.map((s) => <Row key={s.server} server={s} self={s.server === cluster?.server} admin={admin} changed={list.again} />)}</tbody>
            </table>
          </Scroll>
          <p class="note">
            The owner orders all changes, and every standby learns them. Applied is the newest entry of the log that a server has
            applied. Behind is how many entries the most advanced server has applied beyond it. Age is how old the state of a
            server is at most. A drained server owns nothing until it is restarted.
          </p>
        </>
      )}
      {(cluster?.groups?.length ?? 0) > 0 && <Groups groups={cluster?.groups ?? []} servers={servers} admin={admin} changed={list.again} />}
    </>
  );
}

/** Groups shows which servers have and own the groups of models. */
function Groups({ groups, servers, admin, changed }: { groups: Group[]; servers: Server[]; admin: boolean; changed: () => void }) {
  const notice = useNotice();
  const balance = async (): Promise<void> => {
    try {
      for (let step = await rebalance(); step.step; step = await rebalance()) {
        notice({ text: `${step.step}; ${count(step.left ?? 0)} steps are left.` });
        changed();
      }
      notice({ text: "The groups are balanced." });
    } catch (e) {
      notice({ text: e instanceof Error ? e.message : String(e) });
    }
    changed();
  };
  return (
    <>
      <div class="heading"><h2>Groups</h2>{admin && <Busy kind="small" run={balance}>Rebalance</Busy>}</div>
      <Scroll label="Groups by server">
        <table class="models">
          <thead><tr><th scope="col">Server</th><th scope="col" class="right">Has</th><th scope="col" class="right">Owns</th></tr></thead>
          <tbody>
            {servers.map((s) => s.address ?? "").map((a) => (
              <tr key={a}>
                <th scope="row">{a}</th>
                <td class="right">{count(groups.filter((g) => g.servers?.includes(a)).length)}</td>
                <td class="right">{count(groups.filter((g) => g.owner === a).length)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Scroll label="Groups">
        <table class="models">
          <thead><tr><th scope="col">Group</th><th scope="col">Owner</th><th scope="col">Servers</th></tr></thead>
          <tbody>
            {groups.map((g) => (
              <tr key={g.group}>
                <th scope="row">{g.group}</th>
                <td>{g.owner || <span class="light-worse">none</span>}</td>
                <td>{g.servers?.join(" ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="note">
        The part of a name before the first dot chooses the group. Three servers have each group. After a server has joined,
        Rebalance moves groups to it, one at a time.
      </p>
    </>
  );
}

function Row({ server: s, self, admin, changed }: { server: Server; self: boolean; admin: boolean; changed: () => void }) {
  const notice = useNotice();
  const name = s.address || s.server;
  const change = (call: (server: string) => Promise<void>, done: string) => async (): Promise<void> => {
    try {
      await call(s.server);
      notice({ text: done });
    } catch (e) {
      notice({ text: e instanceof Error ? e.message : String(e) });
    }
    changed();
  };
  const movable = s.reachable && s.state === "STATE_VOTER" && !s.draining;
  return (
    <tr>
      <th scope="row">{name}{self && <span class="chip">this server</span>}<div class="sub">{s.server}</div></th>
      <td>{STATES[s.state ?? ""] ?? "–"}{s.draining && <span class="chip">drained</span>}</td>
      <td>{s.reachable ? "yes" : <span class="light-worse">no</span>}</td>
      <td class="right"><Num value={s.applied === undefined ? undefined : number(s.applied)} write={count} /></td>
      <td class="right"><Num value={s.behind === undefined ? undefined : number(s.behind)} write={count} /></td>
      <td class="right"><Num value={s.age === undefined ? undefined : parseFloat(s.age)} write={seconds} /></td>
      <td>{s.version}</td>
      {admin && (
        <td class="right">
          {movable && <Busy kind="small" run={change(moveOwner, `${name} is the owner.`)}>Move here<span class="unseen"> {name}</span></Busy>}{" "}
          {s.reachable && !s.draining && <Busy kind="small" run={change(drainServer, `${name} is drained until it is restarted.`)}>Drain<span class="unseen"> {name}</span></Busy>}
        </td>
      )}
    </tr>
  );
}
