// Lists and calls every tool with the TypeScript clients of both eras. Destructive tools are called twice: a plan, then the
// deed. Any answer that the client refuses, as one that does not fit its output schema, ends the run.
import assert from 'node:assert'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import * as current from '@modelcontextprotocol/client'

const [http, mcp] = process.argv.slice(2)

async function api(method, path, body) {
  const res = await fetch(`http://${http}${path}`, { method, body: body && JSON.stringify(body) })
  const text = await res.text()
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`)
  return text && JSON.parse(text)
}

// furnish gives the node something of everything, under names of one run, and returns arguments for every tool.
async function furnish(run) {
  const q = `orders-${run}`, jobs = `jobs-${run}`
  await api('POST', '/api/v1/configure', { queue: jobs, options: { retryLimit: 1 } })
  await api('POST', '/api/v1/push', { items: [1, 2, 3].map(n => ({ queue: q, partition: 'p', transactionId: `t${n}`, payload: { n } })) })
  await api('POST', '/api/v1/push', { items: [{ queue: jobs, partition: 'a', transactionId: 'bad', payload: 'bad' }, { queue: jobs, partition: 'a', payload: 'good' }] })
  const taken = await api('GET', `/api/v1/pop/queue/${jobs}?consumerGroup=w&subscriptionMode=all&batch=1`)
  await api('POST', '/api/v1/ack', { consumerGroup: 'w', transactionId: 'bad', partitionId: taken.partitionId, leaseId: taken.leaseId, status: 'dlq', error: 'broken' })
  const leased = await api('GET', `/api/v1/pop/queue/${q}?consumerGroup=billing&subscriptionMode=all&batch=1`)
  await api('PUT', `/api/v1/kv/${run}/k1`, { value: { v: 1 }, forever: true })
  const letters = await api('GET', `/api/v1/dlq?queue=${jobs}`)
  return {
    cluster_status: {}, diagnose: {}, metrics_read: { queue: q }, config_show: {}, storage_stat: { queue: q }, queue_list: {},
    queue_describe: { queue: q }, partition_list: { queue: q, group: 'billing' }, group_list: { queue: q },
    group_describe: { queue: q, group: 'billing' },
    lag_top: {}, message_peek: { queue: q, partition: 'p' }, message_search: { queue: q, path: '/n', equals: 2 },
    message_trace: { queue: q, partition: 'p', transaction_id: 't1' }, dlq_list: { queue: jobs }, kv_get: { namespace: run, key: 'k1' },
    kv_list: { namespace: run }, timer_list: { queue: q }, lock_list: { prefix: 'l' }, guide: { topic: 'leases' }, example: { task: 'push' },
    check: {}, explain_error: { error: 'lease_invalid' }, kafka_client: { client: 'java', version: '4.0' }, setup: { feature: 'claude-code' },
    message_push: { queue: q, partition: 'p', messages: [{ transaction_id: 't9', payload: { n: 9 } }] }, queue_create: { queue: `new-${run}` },
    queue_configure: { queue: q, set: { leaseTime: 60 }, dry_run: false }, kv_put: { namespace: run, key: 'k1', value: [1] },
    timer_schedule: { queue: q, key: 't', delay_s: 3600, payload: 1 }, timer_hold: { queue: q, key: 't', paused: true },
    timer_cancel: { queue: q, key: 't' },
    message_take: { queue: jobs, group: 'mine' },
    message_ack: { group: 'billing', lease_id: leased.leaseId, results: [{ partition_id: leased.partitionId, offset: '0', status: 'completed' }] },
    group_seek: { queue: q, group: 'billing', to: 'beginning' }, dlq_replay: { dlq_ids: [letters.messages[0].id.replaceAll('-', '')] }, dlq_purge: { queue: jobs },
    partition_purge: { queue: q, partition: 'p' }, leader_transfer: { to: '1' }, node_drain: { node: '1' },
    kv_delete: { namespace: run, key: 'k1' }, maintenance_set: { timer_fire: true }, group_delete: { queue: q, group: 'billing' }, queue_delete: { queue: q },
  }
}

// What a single node refuses, and the code that it answers.
const refusedAlone = { leader_transfer: 'not_a_cluster', node_drain: 'not_a_cluster' }

async function era(name, client, transport, options) {
  await client.connect(transport)
  const args = await furnish(name)
  const { tools } = await client.listTools()
  const order = Object.keys(args)
  const missing = tools.filter(t => !(t.name in args)).map(t => t.name)
  if (missing.length) throw new Error(`${name}: no arguments for ${missing}`)
  let calls = 0
  for (const tool of order.map(n => tools.find(t => t.name === n))) {
    if (!tool) throw new Error(`${name}: a tool is not listed: ${order.find(n => !tools.some(t => t.name === n))}`)
    for (let a = args[tool.name], again = true; again;) {
      await new Promise(done => setTimeout(done, 60)) // a caller may call 20 times a second
      const res = await client.callTool({ name: tool.name, arguments: a })
      calls++
      const code = refusedAlone[tool.name]
      if (code) {
        assert(res.isError && res.content[0].text.includes(code), `${name}: ${tool.name}: ${res.content[0].text}`)
        break
      }
      if (res.isError) throw new Error(`${name}: ${tool.name}: ${res.content[0].text}`)
      const out = res.structuredContent
      assert.deepStrictEqual(JSON.parse(res.content[0].text), out, `${name}: ${tool.name}: text and structure differ`)
      again = out.done === false && !!out.confirm_token
      if (again) a = { ...a, confirm_token: out.confirm_token }
    }
  }
  const resources = (await client.listResources()).resources
  for (const r of resources) await client.readResource({ uri: r.uri })
  const prompts = (await client.listPrompts()).prompts
  console.log(`${name}: ${tools.length} tools listed and called (${calls} calls), ${resources.length} resources read, ${prompts.length} prompts listed`)
  await client.close()
}

const url = new URL(`http://${mcp}/mcp`)
await era('sdk-1', new OldClient({ name: 'ts', version: '1' }), new OldTransport(url))
await era('client-2', new current.Client({ name: 'ts', version: '2' }), new current.StreamableHTTPClientTransport(url))
