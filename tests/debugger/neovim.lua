-- Drives nvim-dap: breakpoints, a stop, a step, a stop. Prints the place and a variable of every rank after each stop.
vim.opt.runtimepath:prepend(vim.env.NVIM_DAP)
vim.cmd('runtime plugin/dap.lua')
dofile(vim.env.SETTINGS)
local dap = require('dap')
dap.adapters.lockstep.command = vim.env.LOCKSTEP

local function say(...)
  io.stdout:write(table.concat({ ... }, ' ') .. '\n')
end

local stops = 0
dap.listeners.after.event_stopped.test = function() stops = stops + 1 end

local function ask(command, arguments)
  local answer
  dap.session():request(command, arguments, function(failed, body) answer = body or { failed = failed } end)
  vim.wait(60000, function() return answer ~= nil end)
  return answer
end

local function show(count)
  vim.wait(30000, function() return stops >= count end, 20)
  stops = 0
  for _, thread in ipairs(ask('threads').threads) do
    local frame = (ask('stackTrace', { threadId = thread.id }).stackFrames or {})[1]  -- none: the rank has just ended
    local scope = frame and ask('scopes', { frameId = frame.id }).scopes[1]
    for _, one in ipairs(scope and ask('variables', { variablesReference = scope.variablesReference }).variables or {}) do
      if one.name == vim.env.VARIABLE then
        say(thread.name, frame.name, frame.line, one.name, one.value)
      end
    end
  end
end

local function main()
  vim.cmd.edit(vim.env.FILE)
  vim.api.nvim_win_set_cursor(0, { tonumber(vim.env.LINE), 0 })
  dap.set_breakpoint(vim.env.CONDITION)
  local settings = vim.deepcopy(dap.configurations[vim.env.LANGUAGE][1])
  settings.program = vim.env.PROGRAM
  settings.cwd = vim.fs.dirname(vim.env.PROGRAM)
  dap.run(settings)
  local count = tonumber(vim.env.STOPS)
  show(count)
  dap.clear_breakpoints()
  dap.step_over()
  say('step')
  show(count)
  dap.disconnect({ terminateDebuggee = true })
  vim.wait(60000, function() return dap.session() == nil end)
  say('ended', tostring(dap.session()))
end

local good, why = xpcall(main, debug.traceback)
if not good then
  say(why)
end
vim.cmd('qall!')
