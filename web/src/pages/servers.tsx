import { drainServer, getCluster, moveOwner } from "../api/client";
import type { Server } from "../api/types";
import { count, seconds } from "../format";
import { useMay } from "../ui/may";
import { useLoad } from "../ui/load";
import { useNotice } from "../ui/notice";
import { Busy, Failure, Num, Scroll } from "../ui/parts";

const REFRESH = 2000;

const STATES: Record<string, string> = {
  STATE_OWNER: "owner",
  STATE_VOTER: "replica",
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
            The owner orders all changes, and every replica learns them. Applied is the newest entry of the log that a server has
            applied. Behind is how many entries the most advanced server has applied beyond it. Age is how old the state of a
            server is at most. A drained server owns nothing until it is restarted.
          </p>
        </>
      )}
    </>
  );
}

function Row({ server: s, self, admin, changed }: { server: Server; self: boolean; admin: boolean; changed: () => void }) {
  const notice = useNotice();
  const name = s.address ?? s.server;
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
      <td class="right"><Num value={s.applied} write={count} /></td>
      <td class="right"><Num value={s.behind} write={count} /></td>
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
